import { useState } from "preact/hooks";
import { stream } from "../../api.js";
import { Empty, Problem } from "../../ui/feedback.js";
import { Field, textOf } from "../../ui/form.js";
import { CallResults, type Results } from "./call-results.js";
import { Composer } from "./composer.js";
import { CopyAs } from "./copy-as.js";
import { chatRequest } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";
import type { ModeProps } from "./settings.js";
import { emptyAnswer, isEmpty, type Turn, userTurn, withChunk } from "./transcript.js";
import { tried } from "./tried.js";
import { TurnList } from "./turn-list.js";

/** A conversation with a model. */
export function Chat({ model, settings }: ModeProps) {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [text, setText] = useState("");
  const [results, setResults] = useState<Results>({});
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useRun();
  const isRunning = run.state === "running";
  const openCalls = isRunning ? [] : (turns.at(-1)?.calls ?? []);

  const ask = (added: readonly Turn[]): void => {
    const asked = [...turns, ...added];
    const request = tried(() => chatRequest(model, settings, asked));
    setProblem(request instanceof Error ? request : null);
    if (request instanceof Error) return;
    run.start(async (signal, meter) => {
      let answer = emptyAnswer;
      setText("");
      setResults({});
      setTurns([...asked, answer]);
      const rpc = "unified.inference.v1.InferenceService/StreamChatCompletion";
      try {
        for await (const { chunk = {} } of stream(rpc, { params: request.params }, signal)) {
          const before = answer;
          answer = withChunk(answer, chunk);
          if (!isEmpty(answer) && answer !== before) meter.piece();
          if (chunk.usage !== undefined) meter.counted(chunk.usage.completionTokens ?? 0);
          setTurns([...asked, answer]);
        }
      } catch (thrown) {
        if (isEmpty(answer)) takeBack();
        throw thrown;
      }
    });
  };

  /** What got no answer is no part of the conversation, and is not to be typed again. */
  const takeBack = (): void => {
    setTurns(turns);
    setText((since) => [text, since].filter((part) => part !== "").join("\n"));
    setResults(results);
  };

  const reset = (): void => {
    setTurns([]);
    setResults({});
    setProblem(null);
    run.reset();
  };

  return (
    <div class="stack">
      {turns.length === 0 && <Empty>Write a message below. What is said here is used by the account default.</Empty>}
      <TurnList turns={turns} isRunning={isRunning} />
      <RunStatus run={run} />
      <Problem error={problem} />
      {openCalls.length > 0 ? (
        <CallResults calls={openCalls} results={results} onChange={setResults} onSend={ask} onReset={reset} />
      ) : (
        <Composer
          onSend={() => ask([userTurn(text)])}
          buttons={
            <>
              <button type="button" disabled={isRunning || turns.length === 0} onClick={reset}>
                New conversation
              </button>
              <RunButtons run={run} verb="Send" />
            </>
          }
        >
          <Field label="Message" hint="Ctrl and Enter send it.">
            {(ids) => <textarea {...ids} rows={3} required value={text} onInput={(event) => setText(textOf(event))} />}
          </Field>
        </Composer>
      )}
      <CopyAs request={() => chatRequest(model, settings, askedOf(turns, text))} />
    </div>
  );
}

/** What would be sent now; after an answer, what was sent last. */
function askedOf(turns: readonly Turn[], text: string): readonly Turn[] {
  if (text !== "" || turns.length === 0) return [...turns, userTurn(text === "" ? "Hello" : text)];
  return turns.at(-1)?.role === "assistant" ? turns.slice(0, -1) : turns;
}
