import type { FinishReason, GenEvent, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { InvalidResponse } from "../protocol/upstream-failure.js";
import { wellFormed } from "./chunk-values.js";
import { ToolCalls } from "./tool-calls.js";
import type { AnswerUsage } from "./upstream-usage.js";

export interface ChoiceOptions {
  /** Whether a tool must be called: text is then held until the call comes. */
  readonly isForced: boolean;
  readonly parallelToolCalls: boolean;
  /** Whether text events of a choice may be joined. */
  readonly joins: boolean;
  readonly newCallId: () => string;
}

type Emit = (event: GenEvent) => void;

/** Maximum characters of joined text; then an event is emitted. */
const joinedCharsMax = 16_384;
/** Maximum characters before a forced call: in llama.cpp a model that never calls would write until its context is full. */
const forcedCharsMax = 32_768;
/** Maximum positions with log probabilities whose text has not come yet. */
const heldLogprobsMax = 1_024;

/**
 * Turns the output of one choice into events, for all protocols of servers: text in whole characters, joined where this is
 * allowed, tool calls in order, and a finish reason that agrees with the calls.
 */
export class ChoiceOutput {
  readonly #index: number;
  readonly #options: ChoiceOptions;
  readonly #usage: AnswerUsage;
  readonly #emit: Emit;
  readonly #calls: ToolCalls;
  /** The finish reason; null until the choice has finished. */
  reason: FinishReason | null = null;
  /** The stop string that ended the choice; null: none, or the server does not name it. */
  stopSequence: string | null = null;
  hasText = false;
  /** A high surrogate whose low surrogate has not come. */
  #half = "";
  /** Text that waits to be joined with the next, or is held because a call is forced. */
  #waiting = "";
  #logprobs: TokenLogprobInfo[] | null = null;

  constructor(index: number, options: ChoiceOptions, usage: AnswerUsage, emit: Emit) {
    this.#index = index;
    this.#options = options;
    this.#usage = usage;
    this.#emit = emit;
    this.#calls = new ToolCalls(index, options.parallelToolCalls, options.newCallId);
  }

  text(text: string): void {
    if (text === "" || this.reason !== null) return;
    const outTokens = this.#usage.chunk(this.#index);
    const whole = this.#wholeCharacters(text);
    if (whole === "") return;
    const { isForced, joins } = this.#options;
    if (isForced && this.#calls.isEmpty) {
      this.#waiting += whole;
      if (this.#waiting.length > forcedCharsMax) throw notForced();
      return;
    }
    // The first text is emitted immediately, because it sets the measured time to the first token.
    if (joins && this.hasText) {
      this.#waiting += whole;
      if (this.#waiting.length < joinedCharsMax) return;
      this.flush();
      return;
    }
    this.hasText = true;
    this.#emitText(this.#waiting + whole, outTokens);
    this.#waiting = "";
  }

  /** Emits text that is not the answer's content: reasoning or a refusal. */
  otherText(type: "reasoning" | "refusal", text: string): void {
    if (text === "" || this.reason !== null) return;
    this.flush();
    const outTokens = this.#usage.chunk(this.#index);
    this.#emit({ type, choice: this.#index, text: wellFormed(text), outTokens });
  }

  /** Takes the tool call deltas of one chunk, in OpenAI's form. */
  calls(deltas: readonly unknown[]): void {
    if (deltas.length === 0 || this.reason !== null) return;
    const outTokens = this.#usage.chunk(this.#index);
    for (const delta of deltas) {
      this.#calls.take(delta, outTokens, (event) => {
        this.flush();
        this.#emit(event);
      });
    }
  }

  logprobs(positions: readonly TokenLogprobInfo[]): void {
    if (positions.length === 0 || this.reason !== null) return;
    this.#logprobs ??= [];
    this.#logprobs.push(...positions);
    if (this.#logprobs.length >= heldLogprobsMax) this.flush();
  }

  /** Emits the waiting text and log probabilities. */
  flush(): void {
    if (this.#waiting === "" && this.#logprobs === null) return;
    const text = this.#waiting;
    this.#waiting = "";
    this.hasText = true;
    this.#emitText(text, this.#usage.outTokens(this.#index));
  }

  /** Ends the choice; later output for it is dropped. Throws InvalidResponse if a forced call did not come. */
  finish(reason: FinishReason): void {
    if (this.#half !== "") {
      this.#half = "";
      this.#waiting += "\ufffd";
    }
    this.#calls.end();
    const hasCalls = !this.#calls.isEmpty;
    if (this.#options.isForced && !hasCalls && (this.#waiting !== "" || reason !== "length")) throw notForced();
    if (hasCalls && reason === "stop") this.reason = "tool_calls";
    else this.reason = !hasCalls && reason === "tool_calls" ? "stop" : reason;
  }

  /** Emits the `finish` event of the choice. */
  end(): void {
    const { reason, stopSequence } = this;
    if (reason === null) return;
    const choice = this.#index;
    const finish = { type: "finish", choice, reason, outTokens: this.#usage.outTokens(choice) } as const;
    this.#emit(stopSequence === null ? finish : { ...finish, stopSequence });
  }

  #emitText(text: string, outTokens: number): void {
    const logprobs = this.#logprobs;
    if (logprobs === null) {
      this.#emit({ type: "text", choice: this.#index, text, outTokens });
      return;
    }
    this.#logprobs = null;
    this.#emit({ type: "text", choice: this.#index, text, outTokens, logprobs });
  }

  /** Holds back a high surrogate until its low surrogate comes; a lone surrogate becomes U+FFFD. */
  #wholeCharacters(text: string): string {
    const last = text.charCodeAt(text.length - 1);
    const endsOpen = last >= 0xd800 && last < 0xdc00;
    if (this.#half === "" && !endsOpen) return wellFormed(text);
    const joined = this.#half + text;
    this.#half = endsOpen ? joined.slice(-1) : "";
    return wellFormed(endsOpen ? joined.slice(0, -1) : joined);
  }
}

function notForced(): InvalidResponse {
  return new InvalidResponse("the upstream did not make the tool call that the request forces");
}
