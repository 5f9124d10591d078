import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ChatCompletionChunk, ChatCompletionParamsSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { printable } from "../../lib/display-text.js";
import type { CliIo } from "../command-line/cli-io.js";
import { type Paint, paintFor } from "../command-line/table.js";
import type { Conversation } from "./conversation.js";
import { interrupted, LineEditor } from "./line-editor.js";
import { commandWords, SlashCommands } from "./slash-commands.js";

/** Streams the chunks of an answer, until the signal aborts. */
export type AskModel = (
  params: MessageInitShape<typeof ChatCompletionParamsSchema>,
  signal: AbortSignal,
) => AsyncIterable<ChatCompletionChunk | undefined>;

interface ChatDeps {
  readonly io: CliIo;
  readonly ask: AskModel;
  /** Returns one sentence about an error of `ask`. */
  readonly explain: (error: unknown) => string;
  /** The time in milliseconds. */
  readonly now: () => number;
}

/** A chat on a terminal, until the user ends it. */
export async function chat({ io, ask, explain, now }: ChatDeps, conversation: Conversation): Promise<void> {
  const paint = paintFor(io.stdout, io.env);
  const write = (text: string) => io.stdout.write(text);
  const editor = new LineEditor({
    input: io.stdin as unknown as NodeJS.ReadableStream,
    output: io.stdout as unknown as NodeJS.WritableStream,
    words: commandWords,
  });
  const commands = new SlashCommands(conversation, io.cwd);
  write(`${paint("faint", `Chat with ${conversation.model}. /help lists the commands, /bye or Ctrl-D ends it.`)}\n`);
  try {
    for (;;) {
      const message = await readMessage(editor);
      if (message === null) {
        // Ends the line of the prompt, behind which the cursor is.
        write("\n");
        return;
      }
      if (message === interrupted) {
        write("\nCtrl-D or /bye ends the chat.\n");
        continue;
      }
      if (message.trim() === "") continue;
      if (message.startsWith("/")) {
        const outcome = await commands.run(message);
        if ("isEnd" in outcome) return;
        write(`${printable(outcome.text)}\n\n`);
        continue;
      }
      const question = message.trim();
      const abort = new AbortController();
      editor.onInterrupt = () => abort.abort();
      const answer = new Answer(write, paint, now);
      try {
        for await (const chunk of ask(conversation.params(question), abort.signal)) answer.take(chunk);
      } catch (error) {
        if (!abort.signal.aborted) answer.fail(printable(explain(error)));
      } finally {
        editor.onInterrupt = () => {};
      }
      answer.end(abort.signal.aborted);
      if (answer.text !== "") conversation.add(question, answer.text);
    }
  } finally {
    editor.close();
  }
}

const blockMark = '"""';
/** The beginning of a message of several lines, also of a system message. */
const blockForm = /^\s*(?<command>\/system\s+)?"""(?<first>[\s\S]*)$/;

/** Reads one line, or the lines between two marks. Resolves with `interrupted` or null as LineEditor.next does. */
async function readMessage(editor: LineEditor): ReturnType<LineEditor["next"]> {
  const line = await editor.next(">>> ");
  const { command = "", first } = (typeof line === "string" ? blockForm.exec(line) : null)?.groups ?? {};
  if (first === undefined) return line;
  const lines: string[] = [];
  for (let next: Awaited<typeof line> = first; typeof next === "string"; next = await editor.next("... ")) {
    const isEnd = next.trimEnd().endsWith(blockMark);
    lines.push(isEnd ? next.trimEnd().slice(0, -blockMark.length) : next);
    if (isEnd) return command + lines.join("\n");
  }
  return interrupted;
}

/** Prints one answer as it arrives, then its tokens and their rate. */
class Answer {
  readonly #write: (text: string) => unknown;
  readonly #paint: Paint;
  readonly #now: () => number;
  readonly #startedAtMs: number;
  #firstAtMs: number | null = null;
  #lastAtMs = 0;
  #tokens: number | null = null;
  #isCut = false;
  #isReasoning = false;
  #isLineOpen = false;
  text = "";

  constructor(write: (text: string) => unknown, paint: Paint, now: () => number) {
    this.#write = write;
    this.#paint = paint;
    this.#now = now;
    this.#startedAtMs = now();
  }

  take(chunk: ChatCompletionChunk | undefined): void {
    for (const { delta, finishReason } of chunk?.choices ?? []) {
      if (finishReason === "length") this.#isCut = true;
      this.#show(delta?.reasoningContent ?? "", true);
      const text = delta?.content ?? delta?.refusal ?? "";
      this.#show(text, false);
      this.text += text;
    }
    if (chunk?.usage !== undefined) this.#tokens = chunk.usage.completionTokens;
  }

  /** Reasoning is faint and in lines of its own. */
  #show(text: string, isReasoning: boolean): void {
    if (text === "") return;
    this.#lastAtMs = this.#now();
    this.#firstAtMs ??= this.#lastAtMs;
    if (this.#isReasoning && !isReasoning) this.#write("\n\n");
    this.#isReasoning = isReasoning;
    // Removes control characters, which could change the state of the terminal.
    const shown = printable(text);
    this.#write(isReasoning ? this.#paint("faint", shown) : shown);
    this.#isLineOpen = true;
  }

  fail(reason: string): void {
    if (this.#isLineOpen) this.#write("\n");
    this.#write(`${this.#paint("bad", `error: ${reason}`)}`);
    this.#isLineOpen = true;
  }

  end(isStopped: boolean): void {
    if (this.#isLineOpen) this.#write("\n");
    const figures = isStopped ? "stopped" : this.#figures();
    this.#write(figures === "" ? "\n" : `${this.#paint("faint", `[${figures}]`)}\n\n`);
  }

  /** Token count, rate and time of the first token. The first token does not count in the rate. */
  #figures(): string {
    if (this.#tokens === null || this.#firstAtMs === null) return "";
    const seconds = (this.#lastAtMs - this.#firstAtMs) / 1_000;
    const rate = this.#tokens > 1 && seconds > 0 ? `${((this.#tokens - 1) / seconds).toFixed(1)} tokens/s` : null;
    const first = `first after ${((this.#firstAtMs - this.#startedAtMs) / 1_000).toFixed(2)} s`;
    const cut = this.#isCut ? "cut off at the token limit" : null;
    const count = `${this.#tokens} ${this.#tokens === 1 ? "token" : "tokens"}`;
    return [count, rate, first, cut].filter((part) => part !== null).join(", ");
  }
}
