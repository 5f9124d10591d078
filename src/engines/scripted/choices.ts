import type { FinishReason, GenEvent, TokenLogprobInfo } from "../../domain/engine/engine.js";
import { StopSequences } from "../../domain/inference/stop-sequences.js";

/** One choice of an answer, produced step by step. */
export type Choice = TextChoice | CallChoice;

export interface TextChoiceSpec {
  readonly script: Script;
  /** Maximum number of tokens. */
  readonly tokensMax: number;
  readonly stop: readonly string[];
  /** Number of alternatives per token; undefined: no log probabilities. */
  readonly logprobs: number | undefined;
  /** Text before the first token, which does not count as output; empty: none. */
  readonly echo: string;
  /** Finish reason of a text that is not cut. */
  readonly reason: FinishReason;
}

/** A choice that is a text. */
export class TextChoice {
  readonly index: number;
  /** Number of tokens so far, including held-back text. */
  produced = 0;
  readonly #spec: TextChoiceSpec;
  readonly #end: number;
  readonly #stops: StopSequences | null;
  readonly #logprobs: HeldLogprobs | null;
  #echo: string;
  #stopped = false;

  constructor(index: number, spec: TextChoiceSpec) {
    this.index = index;
    this.#spec = spec;
    this.#end = Math.min(spec.script.length, spec.tokensMax);
    this.#stops = spec.stop.length > 0 ? new StopSequences(spec.stop) : null;
    this.#logprobs = spec.logprobs === undefined ? null : new HeldLogprobs(spec.logprobs);
    this.#echo = spec.echo;
  }

  /** Number of tokens that are still to be produced. */
  get left(): number {
    return this.#stopped ? 0 : this.#end - this.produced;
  }

  /** Finish reason of the choice, valid once `left` is 0. */
  get reason(): FinishReason {
    if (this.#stopped) return "stop";
    return this.produced === this.#spec.script.length ? this.#spec.reason : "length";
  }

  /** The stop string that ended the choice; null: none. */
  get stopSequence(): string | null {
    return this.#stops?.found ?? null;
  }

  /** Produces up to `count` tokens and returns their events, in a new array. */
  take(count: number): GenEvent[] {
    const text = this.#takeEcho() + this.#takeTokens(this.produced + Math.min(count, this.left));
    if (text === "") return [];
    const event = { type: "text", choice: this.index, text, outTokens: this.produced } as const;
    return [this.#logprobs === null ? event : { ...event, logprobs: this.#logprobs.shown(text.length) }];
  }

  #takeEcho(): string {
    const echo = this.#echo;
    this.#echo = "";
    if (this.#logprobs !== null) {
      for (const [at, token] of splitTokens(echo).entries()) this.#logprobs.add(token, at === 0);
    }
    return echo;
  }

  #takeTokens(to: number): string {
    if (this.#stops === null && this.#logprobs === null) {
      const text = this.#spec.script.text(this.produced, to);
      this.produced = to;
      return text;
    }
    let text = "";
    while (this.produced < to && !this.#stopped) {
      const token = this.#spec.script.token(this.produced++);
      this.#logprobs?.add(token);
      if (this.#stops === null) {
        text += token;
        continue;
      }
      const { emit, stopped } = this.#stops.push(token);
      this.#stopped = stopped;
      text += emit;
    }
    return this.left === 0 && !this.#stopped ? text + (this.#stops?.flush() ?? "") : text;
  }
}

/** The log probability of each token, and of the first alternative to it. */
const tokenLogprob = -0.1;
/** Chosen so that the probabilities of a position stay below 1 together: e^-0.1 + e^-4 + e^-5 + … = 0.934. */
const firstAlternative = -4;

/** Log probabilities of tokens whose text is held back: they are emitted with the text, or never. */
class HeldLogprobs {
  readonly #alternatives: number;
  #held: { readonly start: number; readonly info: TokenLogprobInfo }[] = [];
  #added = 0;
  #shown = 0;

  constructor(alternatives: number) {
    this.#alternatives = alternatives;
  }

  /** `followsNothing`: whether the token is the first of an echoed prompt, which has no log probability. */
  add(token: string, followsNothing = false): void {
    const info = followsNothing
      ? { token, logprob: Number.NaN, top: [] }
      : { token, logprob: tokenLogprob, top: this.#top(token) };
    this.#held.push({ start: this.#added, info });
    this.#added += token.length;
  }

  /** Returns the log probabilities of the tokens that begin in the next `chars` of the text. */
  shown(chars: number): readonly TokenLogprobInfo[] {
    this.#shown += chars;
    const shown = this.#held.filter((entry) => entry.start < this.#shown);
    this.#held = this.#held.slice(shown.length);
    return shown.map(({ info }) => info);
  }

  /** The token itself and invented alternatives, most likely first. */
  #top(token: string): TokenLogprobInfo["top"] {
    return Array.from({ length: this.#alternatives }, (_, i) =>
      i === 0 ? { token, logprob: tokenLogprob } : { token: `${token}~${i}`, logprob: firstAlternative - (i - 1) },
    );
  }
}

export interface ScriptedCall {
  readonly name: string;
  /** The JSON text of the arguments; at least one token. */
  readonly args: Script;
}

/** A choice that consists of tool calls, one after the other. Only the tokens of the arguments count. */
export class CallChoice {
  readonly index: number;
  produced = 0;
  readonly #calls: readonly ScriptedCall[];
  readonly #newCallId: () => string;
  readonly #total: number;
  readonly #end: number;
  #call = 0;
  /** Number of produced tokens of the current call. */
  #at = 0;

  constructor(index: number, calls: readonly ScriptedCall[], tokensMax: number, newCallId: () => string) {
    this.index = index;
    this.#calls = calls;
    this.#newCallId = newCallId;
    this.#total = calls.reduce((sum, call) => sum + call.args.length, 0);
    this.#end = Math.min(this.#total, tokensMax);
  }

  get left(): number {
    return this.#end - this.produced;
  }

  readonly stopSequence = null;

  /** Finish reason: `tool_calls` only if the calls are complete (TOOL-15). */
  get reason(): FinishReason {
    return this.produced === this.#total ? "tool_calls" : "length";
  }

  take(count: number): GenEvent[] {
    const events: GenEvent[] = [];
    const to = this.produced + Math.min(count, this.left);
    while (this.produced < to) {
      const index = this.#call;
      const call = this.#calls[index];
      if (call === undefined) break;
      const event = { type: "tool", choice: this.index, index } as const;
      const from = this.#at;
      if (from === 0) events.push({ ...event, outTokens: this.produced, id: this.#newCallId(), name: call.name });
      this.#at = Math.min(from + to - this.produced, call.args.length);
      this.produced += this.#at - from;
      events.push({ ...event, outTokens: this.produced, argsDelta: call.args.text(from, this.#at) });
      if (this.#at < call.args.length) break;
      this.#call++;
      this.#at = 0;
    }
    return events;
  }
}

/** By UTF-16 code unit: 0 for each character that `\s` matches, 1 for all others. */
const inkByCode = new Uint8Array(0x10000).fill(1);
const spaces = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff";
for (const space of spaces) inkByCode[space.charCodeAt(0)] = 0;
inkByCode.fill(0, 0x2000, 0x200b);

/** Code units of the part of a text that is counted; a typed array is read faster than a string. */
const units = new Uint16Array(8_192);
const unitBytes = Buffer.from(units.buffer);

/**
 * Number of tokens; 0 for the empty text only. A token is one run of non-space characters with the spaces before it;
 * spaces at the end of the text belong to the last token, and a text of spaces alone is one token. The loop has no branch per
 * character, because the processor cannot predict the ends of words.
 */
export function countTokens(text: string): number {
  const count = tokensBegunIn(text, 0, text.length);
  return count === 0 && text.length > 0 ? 1 : count;
}

/** Number of runs of non-space characters that begin in a part of the text. */
export function tokensBegunIn(text: string, start: number, end: number): number {
  let count = 0;
  let before = start === 0 ? 0 : (inkByCode[text.charCodeAt(start - 1)] ?? 0);
  for (let from = start; from < end; from += units.length) {
    const length = unitBytes.write(text.slice(from, Math.min(end, from + units.length)), "utf16le") / 2;
    for (let i = 0; i < length; i++) {
      const ink = inkByCode[units[i] ?? 0] ?? 0;
      count += ink & ~before;
      before = ink;
    }
  }
  return count;
}

/** The tokens of a text; joined they are the text. Not `\s*\S+`, which takes quadratic time on spaces. */
export function splitTokens(text: string): readonly string[] {
  const tokens: string[] = [];
  let start = 0;
  let before = 0;
  for (let i = 0; i < text.length; i++) {
    const ink = inkByCode[text.charCodeAt(i)] ?? 0;
    if (ink < before) {
      tokens.push(text.slice(start, i));
      start = i;
    }
    before = ink;
  }
  const rest = text.slice(start);
  if (rest !== "") tokens.push(before === 0 ? `${tokens.pop() ?? ""}${rest}` : rest);
  return tokens;
}

/**
 * A text as a sequence of tokens, repeated or cut to a number of tokens. Repetitions are not stored: a script of a million
 * tokens takes the memory of its text. Immutable except for a cache, so one script serves all requests of a model.
 */
export class Script {
  /** Number of tokens. */
  readonly length: number;
  readonly #cycle: readonly string[];
  /** First token of every repetition after the first: it starts with a space, so that it stays a separate token. */
  readonly #again: string;
  #memo: { readonly to: number; readonly text: string } = { to: 0, text: "" };

  /** `tokens`: number of tokens; null: the text is used unchanged. */
  constructor(text: string, tokens: number | null) {
    this.#cycle = splitTokens(tokens === null ? text : text.trimEnd());
    const first = this.#cycle[0] ?? "";
    this.#again = /^\s/.test(first) ? first : ` ${first}`;
    this.length = this.#cycle.length === 0 ? 0 : (tokens ?? this.#cycle.length);
  }

  /** The token at index `i`, which starts at 0. */
  token(i: number): string {
    const at = i % this.#cycle.length;
    return at === 0 && i > 0 ? this.#again : (this.#cycle[at] ?? "");
  }

  /** The joined text of the tokens from index `from` (included) to `to` (excluded). */
  text(from: number, to: number): string {
    if (to - from === 1) return this.token(from);
    if (from === 0 && to === this.#memo.to) return this.#memo.text;
    let text = "";
    for (let i = from; i < to; i++) text += this.token(i);
    if (from === 0) this.#memo = { to, text };
    return text;
  }
}
