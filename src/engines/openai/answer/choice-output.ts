import type { FinishReason, GenEvent, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { InvalidResponse } from "../protocol/upstream-failure.js";
import { wellFormed } from "./chunk-values.js";
import { ToolCalls } from "./tool-calls.js";
import type { AnswerUsage } from "./upstream-usage.js";

export interface ChoiceOptions {
  /** A tool has to be called: text is held until the call comes. */
  readonly isForced: boolean;
  readonly parallelToolCalls: boolean;
  /** Whether text events of a choice may be joined. */
  readonly joins: boolean;
  readonly newCallId: () => string;
}

type Emit = (event: GenEvent) => void;

/** Characters of joined text after which an event is emitted all the same. */
const joinedCharsMax = 16_384;
/** Characters before a forced call: llama.cpp lets a model that makes none write until its context is full. */
const forcedCharsMax = 32_768;
/** Positions whose text has not come. */
const heldLogprobsMax = 1_024;

/**
 * The output of one choice as events, whatever the protocol of the server: text in whole characters and joined where that is
 * allowed, tool calls in order, and a finish that agrees with them.
 */
export class ChoiceOutput {
  readonly #index: number;
  readonly #options: ChoiceOptions;
  readonly #usage: AnswerUsage;
  readonly #emit: Emit;
  readonly #calls: ToolCalls;
  /** Null until the choice has finished. */
  reason: FinishReason | null = null;
  /** The stop string that ended the choice; null: none, or the server does not name it. */
  stopSequence: string | null = null;
  hasText = false;
  /** A high surrogate whose other half has not come. */
  #half = "";
  /** Text that is joined, or held because a call is forced. */
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
    // The first text is emitted at once: it is the time of the first token.
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

  /** Text apart from the answer's own. */
  otherText(type: "reasoning" | "refusal", text: string): void {
    if (text === "" || this.reason !== null) return;
    this.flush();
    const outTokens = this.#usage.chunk(this.#index);
    this.#emit({ type, choice: this.#index, text: wellFormed(text), outTokens });
  }

  /** Takes the parts of tool calls that came together, in OpenAI's form. */
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

  /** Emits text and log probabilities that wait. */
  flush(): void {
    if (this.#waiting === "" && this.#logprobs === null) return;
    const text = this.#waiting;
    this.#waiting = "";
    this.hasText = true;
    this.#emitText(text, this.#usage.outTokens(this.#index));
  }

  /** Ends the choice; what comes for it afterwards is dropped. Throws InvalidResponse when a forced call did not come. */
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

  /** Emits the finish. */
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

  /** Holds back a character of which only half has come; a half that stands alone becomes U+FFFD. */
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
