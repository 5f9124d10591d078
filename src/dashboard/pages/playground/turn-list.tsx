import { CutShort } from "./cut-short.js";
import { isEmpty, isSilent, type Turn } from "./transcript.js";

const titles = { user: "You", assistant: "Model", tool: "Result of a tool" } as const;

export interface TurnListProps {
  readonly turns: readonly Turn[];
  /** Whether the last turn still grows. */
  readonly isRunning: boolean;
}

/** The conversation as plain text. An answer is read out when it is complete, not word by word. */
export function TurnList({ turns, isRunning }: TurnListProps) {
  const last = turns.length - 1;
  return (
    <ol class="turns" aria-label="Conversation" aria-live="polite" aria-busy={isRunning}>
      {turns.map((turn, index) => (
        <li key={index} class={`turn turn-${turn.role}`}>
          <strong>{titles[turn.role]}</strong>
          {turn.reasoning !== "" && (
            <details open={isSilent(turn)}>
              <summary>Reasoning</summary>
              <div class="said faint">{turn.reasoning}</div>
            </details>
          )}
          {turn.text !== "" && <div class="said">{turn.text}</div>}
          {turn.calls.map(({ id, name, argumentsJson }) => (
            <div key={id}>
              Calls <code>{name}</code> with <code>{argumentsJson}</code>
            </div>
          ))}
          {isRunning && index === last
            ? isSilent(turn) && <div class="faint">…</div>
            : isEmpty(turn) && <div class="faint">It said nothing.</div>}
          {turn.isCut && <CutShort />}
        </li>
      ))}
    </ol>
  );
}
