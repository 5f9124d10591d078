import type { FinishReason, GenEvent, TokenLogprobInfo } from "../../domain/engine/engine.js";
import { StopSequences } from "../../domain/inference/stop-sequences.js";
import { type Script, splitTokens, tokenLogprob } from "./tokens.js";

/** One choice of an answer, produced step by step. */
export interface Choice {
  readonly index: number;
  /** Tokens so far, held-back text included. */
  readonly produced: number;
  /** Tokens still to come. */
  readonly left: number;
  /** Why it ended, once nothing is left. */
  readonly reason: FinishReason;
  /** Produces up to `count` tokens and returns the events that they cause, in a list of the caller's own. */
  take(count: number): GenEvent[];
}

export interface TextChoiceSpec {
  readonly index: number;
  readonly script: Script;
  /** Tokens that may be produced. */
  readonly tokensMax: number;
  readonly stop: readonly string[];
  /** Alternatives per token; undefined: no log probabilities. */
  readonly logprobs: number | undefined;
  /** Text that comes before the first token and counts nothing; empty: none. */
  readonly echo: string;
  /** How the text ends when it is said to its end. */
  readonly reason: FinishReason;
}

/** A choice that says a text. */
export class TextChoice implements Choice {
  readonly index: number;
  readonly #spec: TextChoiceSpec;
  readonly #end: number;
  readonly #stops: StopSequences | null;
  readonly #logprobs: HeldLogprobs | null;
  #echo: string;
  #produced = 0;
  #stopped = false;

  constructor(spec: TextChoiceSpec) {
    this.index = spec.index;
    this.#spec = spec;
    this.#end = Math.min(spec.script.length, spec.tokensMax);
    this.#stops = spec.stop.length > 0 ? new StopSequences(spec.stop) : null;
    this.#logprobs = spec.logprobs === undefined ? null : new HeldLogprobs(spec.logprobs);
    this.#echo = spec.echo;
  }

  get produced(): number {
    return this.#produced;
  }

  get left(): number {
    return this.#stopped ? 0 : this.#end - this.#produced;
  }

  get reason(): FinishReason {
    if (this.#stopped) return "stop";
    return this.#produced === this.#spec.script.length ? this.#spec.reason : "length";
  }

  take(count: number): GenEvent[] {
    const text = this.#takeEcho() + this.#takeTokens(this.#produced + Math.min(count, this.left));
    if (text === "") return [];
    const event = { type: "text", choice: this.index, text, outTokens: this.#produced } as const;
    return [this.#logprobs === null ? event : { ...event, logprobs: this.#logprobs.shown(text.length) }];
  }

  #takeEcho(): string {
    const echo = this.#echo;
    this.#echo = "";
    if (this.#logprobs !== null) for (const token of splitTokens(echo)) this.#logprobs.add(token);
    return echo;
  }

  #takeTokens(to: number): string {
    if (this.#stops === null && this.#logprobs === null) {
      const text = this.#spec.script.text(this.#produced, to);
      this.#produced = to;
      return text;
    }
    let text = "";
    while (this.#produced < to && !this.#stopped) text += this.#takeToken();
    return this.left === 0 && !this.#stopped ? text + (this.#stops?.flush() ?? "") : text;
  }

  #takeToken(): string {
    const token = this.#spec.script.token(this.#produced++);
    this.#logprobs?.add(token);
    if (this.#stops === null) return token;
    const { emit, stopped } = this.#stops.push(token);
    this.#stopped = stopped;
    return emit;
  }
}

/** Log probabilities of tokens whose text is held back: they come with the text, or not at all. */
class HeldLogprobs {
  readonly #alternatives: number;
  #held: { readonly start: number; readonly logprob: TokenLogprobInfo }[] = [];
  #added = 0;
  #shown = 0;

  constructor(alternatives: number) {
    this.#alternatives = alternatives;
  }

  add(token: string): void {
    this.#held.push({ start: this.#added, logprob: tokenLogprob(token, this.#alternatives) });
    this.#added += token.length;
  }

  /** The tokens that begin in the next `chars` of the text. */
  shown(chars: number): readonly TokenLogprobInfo[] {
    this.#shown += chars;
    const shown = this.#held.filter((entry) => entry.start < this.#shown);
    this.#held = this.#held.slice(shown.length);
    return shown.map((entry) => entry.logprob);
  }
}

export interface ScriptedCall {
  readonly name: string;
  /** The JSON text of the arguments; at least one token. */
  readonly args: Script;
}

/** A choice that makes calls, one after the other. Only the tokens of the arguments count. */
export class CallChoice implements Choice {
  readonly index: number;
  readonly #calls: readonly ScriptedCall[];
  readonly #newCallId: () => string;
  readonly #total: number;
  readonly #end: number;
  #produced = 0;
  #call = 0;
  /** Tokens of the current call that are out. */
  #at = 0;

  constructor(index: number, calls: readonly ScriptedCall[], tokensMax: number, newCallId: () => string) {
    this.index = index;
    this.#calls = calls;
    this.#newCallId = newCallId;
    this.#total = calls.reduce((sum, call) => sum + call.args.length, 0);
    this.#end = Math.min(this.#total, tokensMax);
  }

  get produced(): number {
    return this.#produced;
  }

  get left(): number {
    return this.#end - this.#produced;
  }

  /** A call that was cut is never reported as made (TOOL-15). */
  get reason(): FinishReason {
    return this.#produced === this.#total ? "tool_calls" : "length";
  }

  take(count: number): GenEvent[] {
    const events: GenEvent[] = [];
    const to = this.#produced + Math.min(count, this.left);
    while (this.#produced < to) events.push(...this.#takeOfCall(to - this.#produced));
    return events;
  }

  /** Produces up to `count` tokens of the current call. */
  #takeOfCall(count: number): readonly GenEvent[] {
    const call = this.#calls[this.#call];
    if (call === undefined) return [];
    const index = this.#call;
    const from = this.#at;
    const start = from === 0 ? [{ ...this.#event(index), id: this.#newCallId(), name: call.name }] : [];
    this.#at = Math.min(from + count, call.args.length);
    this.#produced += this.#at - from;
    const argsDelta = call.args.text(from, this.#at);
    if (this.#at === call.args.length) {
      this.#call++;
      this.#at = 0;
    }
    return [...start, { ...this.#event(index), argsDelta }];
  }

  #event(index: number): { type: "tool"; choice: number; index: number; outTokens: number } {
    return { type: "tool", choice: this.index, index, outTokens: this.#produced };
  }
}
