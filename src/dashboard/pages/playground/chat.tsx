import { useEffect, useRef, useState } from "preact/hooks";
import { stream } from "../../lib/api.js";
import { Empty, Problem } from "../../ui/feedback.js";
import { Field, textOf } from "../../ui/form.js";
import { type Call, emptyAnswer, isEmpty, type Message, toolMessage, userMessage, withChunk } from "./answers.js";
import { Composer, CopyAs, orError } from "./composer.js";
import { ConversationView } from "./conversation-view.js";
import type { Conversation } from "./conversations.js";
import { chatRequest, type Settings } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";

export interface ChatProps {
  readonly model: string;
  readonly settings: Settings;
  /** The conversation to continue, with the messages of the last save. */
  readonly conversation: Conversation;
  /** Saves the messages, after each answer and after every other change. */
  readonly onSave: (messages: readonly Message[]) => void;
  /** Starts a new conversation. */
  readonly onNew: () => void;
  /** Reports why the last request was rejected; null if it was not. */
  readonly onProblem: (problem: Error | null) => void;
}

/** A conversation with a model. */
export function Chat({ model, settings, conversation, onSave, onNew, onProblem }: ChatProps) {
  const [messages, setMessages] = useState(conversation.messages);
  const [text, setText] = useState("");
  const [results, setResults] = useState<ToolResults>({});
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useRun();
  const isRunning = run.state === "running";
  const openCalls = isRunning ? [] : (messages.at(-1)?.calls ?? []);
  useEffect(() => onProblem(problem ?? run.error), [problem, run.error]);
  const end = useFollowedEnd([messages]);

  /** Requests an answer to these messages. If there is no answer, the conversation and the input are restored. */
  const ask = (asked: readonly Message[], isTyped: boolean): void => {
    const request = orError(() => chatRequest(model, settings, asked));
    setProblem(request instanceof Error ? request : null);
    if (request instanceof Error) return;
    run.start(async (signal, meter) => {
      let answer = emptyAnswer;
      const frames = latestByFrame(setMessages);
      if (isTyped) clearInput();
      setMessages([...asked, answer]);
      const rpc = "unified.inference.v1.InferenceService/StreamChatCompletion";
      try {
        for await (const { chunk = {} } of stream(rpc, { params: request.params }, signal)) {
          const before = answer;
          answer = withChunk(answer, chunk);
          if (!isEmpty(answer) && answer !== before) meter.piece();
          if (chunk.usage !== undefined) meter.counted(chunk.usage.completionTokens ?? 0);
          frames.show([...asked, answer]);
        }
        frames.end([...asked, answer]);
        onSave([...asked, answer]);
      } catch (thrown) {
        frames.end(isEmpty(answer) ? messages : [...asked, answer]);
        if (!isEmpty(answer)) onSave([...asked, answer]);
        else if (isTyped) restoreInput();
        throw thrown;
      }
    });
  };

  const clearInput = (): void => {
    setText("");
    setResults({});
  };

  /** Puts an unanswered message back into the input, before any text that was typed since. */
  const restoreInput = (): void => {
    setText((since) => [text, since].filter((part) => part !== "").join("\n"));
    setResults(results);
  };

  return (
    <div class="stack chat">
      {messages.length === 0 && <Empty>Send a message to start. Its usage counts towards the account “default”.</Empty>}
      <ConversationView
        messages={messages}
        isRunning={isRunning}
        onEdit={(index, edited) => ask([...messages.slice(0, index), userMessage(edited)], false)}
        onRegenerate={(index) => ask(messages.slice(0, index), false)}
      />
      <RunStatus run={run} />
      <Problem error={problem} />
      {openCalls.length > 0 ? (
        <ToolResultsForm
          calls={openCalls}
          results={results}
          onChange={setResults}
          onSend={(added) => ask([...messages, ...added], true)}
          onReset={onNew}
        />
      ) : (
        <Composer
          sendsOnEnter
          onSend={() => ask([...messages, userMessage(text)], true)}
          buttons={
            <>
              <button type="button" disabled={isRunning || messages.length === 0} onClick={onNew}>
                New conversation
              </button>
              <RunButtons run={run} verb="Send" />
            </>
          }
        >
          <Field label="Message" hint="Enter sends, Shift+Enter adds a line.">
            {(ids) => <textarea {...ids} rows={3} required value={text} onInput={(event) => setText(textOf(event))} />}
          </Field>
        </Composer>
      )}
      <div ref={end} />
      <CopyAs request={() => chatRequest(model, settings, askedOf(messages, text))} />
    </div>
  );
}

/** The messages that would be sent now; after an answer, those that were sent last. */
function askedOf(messages: readonly Message[], text: string): readonly Message[] {
  if (text !== "" || messages.length === 0) return [...messages, userMessage(text === "" ? "Hello" : text)];
  return messages.at(-1)?.role === "assistant" ? messages.slice(0, -1) : messages;
}

/** Shows at most one value per frame: a fast model sends several chunks in the time of one. */
function latestByFrame<T>(show: (value: T) => void) {
  let frame = 0;
  let latest: T;
  return {
    show(value: T): void {
      latest = value;
      if (frame !== 0) return;
      frame = requestAnimationFrame(() => {
        frame = 0;
        show(latest);
      });
    },
    /** Shows the final value immediately. */
    end(value: T): void {
      cancelAnimationFrame(frame);
      show(value);
    },
  };
}

/** Distance to the window's lower edge up to which an element counts as visible. */
const nearPixels = 160;

/** An element that stays visible while the content above it grows, unless the user has scrolled away from it. */
function useFollowedEnd(content: readonly unknown[]) {
  const element = useRef<HTMLDivElement>(null);
  const isNear = useRef(true);
  useEffect(() => {
    const measure = (): void => {
      const bottom = element.current?.getBoundingClientRect().bottom ?? 0;
      isNear.current = bottom <= window.innerHeight + nearPixels;
    };
    document.addEventListener("scroll", measure, { capture: true, passive: true });
    return () => document.removeEventListener("scroll", measure, { capture: true });
  }, []);
  useEffect(() => {
    if (isNear.current) element.current?.scrollIntoView({ block: "nearest" });
  }, content);
  return element;
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
