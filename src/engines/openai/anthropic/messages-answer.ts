import type { EngineUsage, FinishReason, GenEvent } from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";
import { type ChoiceOptions, ChoiceOutput } from "../answer/choice-output.js";
import { errorKind, indexOf, type Json, stringOf } from "../answer/chunk-values.js";
import { AnswerUsage } from "../answer/upstream-usage.js";
import { InvalidResponse, parseJson, ReportedError } from "../protocol/upstream-failure.js";
import { MessagesUsage } from "./messages-usage.js";

export interface MessagesAnswerOptions extends ChoiceOptions {
  readonly fingerprint: string;
  readonly estimatedPromptTokens: () => number;
}

type Emit = (event: GenEvent) => void;

/** A content block that has started and not stopped. */
interface OpenBlock {
  readonly index: number;
  readonly type: string;
  /** Arguments in the start event of a call, which are used if no delta with arguments follows. */
  wholeArguments: string;
}

const finishReasons: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

/** Stop reasons that are not known, such as those of later versions of the API, become `stop`. */
export function finishReasonOfStop(stopReason: string): FinishReason {
  return (Object.hasOwn(finishReasons, stopReason) ? finishReasons[stopReason] : undefined) ?? "stop";
}

/**
 * Turns an answer of Anthropic's Messages API into events: content blocks become text, reasoning and tool calls. Signatures,
 * citations, pings, and blocks of tools that the server runs itself are left out. `finish` and `usage` are emitted by `end`.
 * Throws InvalidResponse for errors in the stream and for data that is no event of the API.
 */
export class MessagesAnswer {
  readonly fingerprint: string;
  readonly #emit: Emit;
  readonly #choice: ChoiceOutput;
  readonly #usage: AnswerUsage;
  readonly #figures = new MessagesUsage();
  readonly #deltas = new PlainDeltas();
  #isAccepted = false;
  /** Whether a content block has started: `message_start` and pings also come while the prompt is read. */
  hasBegun = false;
  #open: OpenBlock | null = null;

  constructor(options: MessagesAnswerOptions, emit: Emit) {
    this.fingerprint = options.fingerprint;
    this.#emit = emit;
    this.#usage = new AnswerUsage(1, options.estimatedPromptTokens);
    this.#choice = new ChoiceOutput(0, options, this.#usage, emit);
  }

  /** Whether the stop reason has come. */
  get isFinished(): boolean {
    return this.#choice.reason !== null;
  }

  /** The usage until now; null before the first event: the server has not begun. */
  get usageSoFar(): EngineUsage | null {
    return this.#isAccepted ? this.#usage.figures() : null;
  }

  /** Takes the data of one event of the stream. Returns whether it is the last one. */
  take(data: string): boolean {
    const text = this.hasBegun ? this.#deltas.match(data) : null;
    if (text !== null) {
      if (this.#deltas.isThinking) this.#choice.otherText("reasoning", text);
      else this.#choice.text(text);
      return false;
    }
    const event = parseJson(data);
    if (event === undefined) throw new InvalidResponse("the upstream sent an event that is not JSON");
    return isObject(event) && this.#takeEvent(event);
  }

  /** Takes an answer that did not stream: a message with all its content. */
  takeChunk(answer: unknown): void {
    if (!isObject(answer)) return;
    if (answer["type"] === "error" || (answer["error"] ?? null) !== null) throw reported(answer);
    this.#takeUsage(answer["usage"], true);
    this.#accept();
    const content: readonly unknown[] = Array.isArray(answer["content"]) ? answer["content"] : [];
    for (const [index, block] of content.entries()) {
      if (isObject(block)) this.#startBlock(index, block);
      this.#stopBlock();
    }
    this.#takeStop(answer);
  }

  /** Emits held text, the finish and the usage. Throws InvalidResponse for an answer that is not complete. */
  end(): void {
    if (!this.isFinished) throw new InvalidResponse("the upstream's answer ended without a stop reason");
    this.#choice.flush();
    this.#choice.end();
    this.#emit({ type: "usage", ...this.#usage.figures() });
  }

  #takeEvent(event: Json): boolean {
    switch (event["type"]) {
      case "message_start":
        if (isObject(event["message"])) this.#takeUsage(event["message"]["usage"], false);
        this.#accept();
        break;
      case "content_block_start":
        this.#accept();
        if (isObject(event["content_block"])) this.#startBlock(indexOf(event), event["content_block"]);
        break;
      case "content_block_delta":
        this.#accept();
        if (isObject(event["delta"])) this.#takeDelta(indexOf(event), event["delta"]);
        break;
      case "content_block_stop":
        this.#stopBlock();
        break;
      case "message_delta":
        this.#takeUsage(event["usage"], true);
        if (isObject(event["delta"])) this.#takeStop(event["delta"]);
        break;
      case "message_stop":
        return true;
      case "error":
        throw reported(event);
      default:
    }
    return false;
  }

  #accept(): void {
    if (this.#isAccepted) return;
    this.#isAccepted = true;
    const { promptTokens, cachedTokens } = this.#usage;
    this.#emit({ type: "accepted", promptTokens, cachedTokens });
  }

  /** Starts a block. It has all of its content if the answer is not streamed, and usually none if it is streamed. */
  #startBlock(index: number, block: Json): void {
    this.#stopBlock();
    this.hasBegun = true;
    const type = stringOf(block["type"]);
    this.#open = { index, type, wholeArguments: "" };
    if (type === "text") this.#choice.text(stringOf(block["text"]));
    else if (type === "thinking") this.#choice.otherText("reasoning", stringOf(block["thinking"]));
    else if (type === "tool_use") {
      const { id, name, input } = block;
      if (isObject(input) && Object.keys(input).length > 0) this.#open.wholeArguments = JSON.stringify(input);
      this.#choice.calls([{ index, id, function: { name } }]);
    }
  }

  #takeDelta(index: number, delta: Json): void {
    this.hasBegun = true;
    switch (delta["type"]) {
      case "text_delta":
        this.#choice.text(stringOf(delta["text"]));
        break;
      case "thinking_delta":
        this.#choice.otherText("reasoning", stringOf(delta["thinking"]));
        break;
      case "input_json_delta":
        this.#takeArguments(index, stringOf(delta["partial_json"]));
        break;
      default:
    }
  }

  #takeArguments(index: number, text: string): void {
    const open = this.#open;
    if (open === null || open.index !== index) {
      throw new InvalidResponse("the upstream sent arguments that belong to no open tool call");
    }
    if (open.type !== "tool_use" || text === "") return;
    open.wholeArguments = "";
    this.#choice.calls([{ index, function: { arguments: text } }]);
  }

  #stopBlock(): void {
    const open = this.#open;
    this.#open = null;
    if (open === null || open.wholeArguments === "") return;
    this.#choice.calls([{ index: open.index, function: { arguments: open.wholeArguments } }]);
  }

  #takeStop(end: Json): void {
    const name = stringOf(end["stop_reason"]);
    if (name === "" || this.isFinished) return;
    this.#stopBlock();
    this.#choice.finish(finishReasonOfStop(name));
    if (name === "stop_sequence") this.#choice.stopSequence = stringOf(end["stop_sequence"]) || null;
  }

  /** `isFinal`: the count of output tokens is that of the whole answer. At the start it covers only the first token. */
  #takeUsage(usage: unknown, isFinal: boolean): void {
    const read = this.#figures.read(usage, isFinal);
    if (read !== null) this.#usage.take(read, null);
  }
}

function reported(event: Json): ReportedError {
  return new ReportedError(JSON.stringify(event), new Error(errorKind(event)));
}

/** The JSON before the text in a delta of text or thinking, as Anthropic's API writes it. */
const deltaStart =
  /^\{"type": ?"content_block_delta", ?"index": ?\d+, ?"delta": ?\{"type": ?"(?:text_delta", ?"text|thinking_delta", ?"thinking)": ?"/;
/** The JSON after the text, in which Anthropic's API adds a varying number of spaces. */
const deltaEnd = /^" *\} *\}$/;
/** Characters for which the JSON parser is used: backslashes, and control characters, which JSON forbids below U+0020. */
const needsParser = /[\\\p{Cc}]/u;

/** Reads deltas of text and thinking without JSON.parse: their form is fixed, so the text is found by comparing. */
class PlainDeltas {
  /** The start of the last delta, with which the next delta usually begins as well. */
  #start = "";
  /** Whether the last match was thinking. */
  isThinking = false;

  /** The text of a delta; null: the event must be parsed. */
  match(data: string): string | null {
    if (this.#start === "" || !data.startsWith(this.#start)) {
      const start = deltaStart.exec(data)?.[0];
      if (start === undefined) return null;
      this.#start = start;
      this.isThinking = start.includes("thinking_delta");
    }
    const from = this.#start.length;
    const to = data.indexOf('"', from);
    if (to === -1 || !deltaEnd.test(data.slice(to))) return null;
    const text = data.slice(from, to);
    return needsParser.test(text) ? null : text;
  }
}
