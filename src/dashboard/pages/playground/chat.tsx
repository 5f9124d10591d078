import { useState } from "preact/hooks";
import { stream } from "../../lib/api.js";
import { Empty, Problem } from "../../ui/feedback.js";
import { Field, textOf } from "../../ui/form.js";
import {
  type Call,
  emptyAnswer,
  isEmpty,
  isSilent,
  type Message,
  toolMessage,
  userMessage,
  withChunk,
} from "./answers.js";
import { Composer, CopyAs, orError, TruncatedNote } from "./composer.js";
import { chatRequest, type ModeProps } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";

/** A conversation with a model. */
export function Chat({ model, settings }: ModeProps) {
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [text, setText] = useState("");
  const [results, setResults] = useState<ToolResults>({});
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useRun();
  const isRunning = run.state === "running";
  const openCalls = isRunning ? [] : (messages.at(-1)?.calls ?? []);

  const ask = (added: readonly Message[]): void => {
    const asked = [...messages, ...added];
    const request = orError(() => chatRequest(model, settings, asked));
    setProblem(request instanceof Error ? request : null);
    if (request instanceof Error) return;
    run.start(async (signal, meter) => {
      let answer = emptyAnswer;
      setText("");
      setResults({});
      setMessages([...asked, answer]);
      const rpc = "unified.inference.v1.InferenceService/StreamChatCompletion";
      try {
        for await (const { chunk = {} } of stream(rpc, { params: request.params }, signal)) {
          const before = answer;
          answer = withChunk(answer, chunk);
          if (!isEmpty(answer) && answer !== before) meter.piece();
          if (chunk.usage !== undefined) meter.counted(chunk.usage.completionTokens ?? 0);
          setMessages([...asked, answer]);
        }
      } catch (thrown) {
        if (isEmpty(answer)) restoreInput();
        throw thrown;
      }
    });
  };

  /** Removes an unanswered message from the conversation and puts it back into the input. */
  const restoreInput = (): void => {
    setMessages(messages);
    setText((since) => [text, since].filter((part) => part !== "").join("\n"));
    setResults(results);
  };

  const reset = (): void => {
    setMessages([]);
    setResults({});
    setProblem(null);
    run.reset();
  };

  return (
    <div class="stack">
      {messages.length === 0 && <Empty>Send a message to start. Its usage counts towards the account “default”.</Empty>}
      <Conversation messages={messages} isRunning={isRunning} />
      <RunStatus run={run} />
      <Problem error={problem} />
      {openCalls.length > 0 ? (
        <ToolResultsForm calls={openCalls} results={results} onChange={setResults} onSend={ask} onReset={reset} />
      ) : (
        <Composer
          onSend={() => ask([userMessage(text)])}
          buttons={
            <>
              <button type="button" disabled={isRunning || messages.length === 0} onClick={reset}>
                New conversation
              </button>
              <RunButtons run={run} verb="Send" />
            </>
          }
        >
          <Field label="Message" hint="Press Ctrl+Enter to send.">
            {(ids) => <textarea {...ids} rows={3} required value={text} onInput={(event) => setText(textOf(event))} />}
          </Field>
        </Composer>
      )}
      <CopyAs request={() => chatRequest(model, settings, askedOf(messages, text))} />
    </div>
  );
}

/** The messages that would be sent now; after an answer, those that were sent last. */
function askedOf(messages: readonly Message[], text: string): readonly Message[] {
  if (text !== "" || messages.length === 0) return [...messages, userMessage(text === "" ? "Hello" : text)];
  return messages.at(-1)?.role === "assistant" ? messages.slice(0, -1) : messages;
}

const roleTitles = { user: "User", assistant: "Assistant", tool: "Tool result" } as const;

interface ConversationProps {
  readonly messages: readonly Message[];
  /** Whether the last message is still growing. */
  readonly isRunning: boolean;
}

/** The messages as plain text. Screen readers announce an answer when it is complete. */
function Conversation({ messages, isRunning }: ConversationProps) {
  const last = messages.length - 1;
  return (
    <ol class="messages" aria-label="Conversation" aria-live="polite" aria-busy={isRunning}>
      {messages.map((message, index) => (
        <li key={index} class={`message message-${message.role}`}>
          <strong>{roleTitles[message.role]}</strong>
          {message.reasoning !== "" && (
            <details open={isSilent(message)}>
              <summary>Reasoning</summary>
              <div class="said faint">{message.reasoning}</div>
            </details>
          )}
          {message.text !== "" && <div class="said">{message.text}</div>}
          {message.calls.map(({ id, name, argumentsJson }) => (
            <div key={id}>
              Tool call: <code>{name}</code> <code>{argumentsJson}</code>
            </div>
          ))}
          {isRunning && index === last
            ? isSilent(message) && <div class="faint">…</div>
            : isEmpty(message) && <div class="faint">Empty response</div>}
          {message.isTruncated && <TruncatedNote />}
        </li>
      ))}
    </ol>
  );
}

/** Typed results by tool call id. */
type ToolResults = Readonly<Record<string, string>>;

interface ToolResultsFormProps {
  readonly calls: readonly Call[];
  readonly results: ToolResults;
  readonly onChange: (results: ToolResults) => void;
  readonly onSend: (results: readonly Message[]) => void;
  readonly onReset: () => void;
}

/** Asks for the results of the tools that the model called. */
function ToolResultsForm({ calls, results, onChange, onSend, onReset }: ToolResultsFormProps) {
  return (
    <Composer
      onSend={() => onSend(calls.map(({ id }) => toolMessage(id, results[id] ?? "")))}
      buttons={
        <>
          <button type="button" onClick={onReset}>
            New conversation
          </button>
          <button type="submit" class="primary">
            Send results
          </button>
        </>
      }
    >
      {calls.map(({ id, name }) => (
        <Field key={id} label={`Result of ${name}`}>
          {(ids) => (
            <textarea
              {...ids}
              rows={2}
              required
              value={results[id] ?? ""}
              onInput={(event) => onChange({ ...results, [id]: textOf(event) })}
            />
          )}
        </Field>
      ))}
    </Composer>
  );
}
