import type { FinishReason, GenEvent, TokenLogprob, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { StopSequences } from "../../../domain/inference/stop-sequences.js";
import type { OutputPart, OutputReader } from "../chat/output-reader.js";
import type { DecodedToken } from "./native-model.js";
import type { TokenSpelling } from "./token-spelling.js";

export interface ChoiceOutputDeps {
  readonly reader: OutputReader;
  readonly stop: readonly string[];
  /** Alternatives per token; null: no log probabilities. */
  readonly logprobs: number | null;
  readonly spelling: TokenSpelling;
  readonly detokenize: (tokens: readonly number[], before: readonly number[]) => string;
}

export interface ChoiceEnd {
  readonly events: readonly GenEvent[];
  readonly reason: FinishReason;
  /** The stop string that ended the answer; null: none. */
  readonly stopSequence: string | null;
  /** How the answer violates its schema; null: it does not. */
  readonly fault: string | null;
}

/** Index of the choice in all events: the domain runs the choices of a request one by one. */
const choice = 0;

/** Turns the tokens of an answer into events: tokens into text, text into parts (content, thoughts, calls), parts into events. */
export class ChoiceOutput {
  reasoningTokens = 0;
  readonly #reader: OutputReader;
  readonly #stops: StopSequences | null;
  readonly #logprobs: HeldLogprobs | null;
  readonly #alternatives: number;
  readonly #spelling: TokenSpelling;
  readonly #text: TokenText;
  readonly #tokens: number[] = [];
  #kind: OutputPart["type"] = "text";
  #stopped = false;

  constructor({ reader, stop, logprobs, spelling, detokenize }: ChoiceOutputDeps) {
    this.#reader = reader;
    this.#stops = stop.length === 0 ? null : new StopSequences(stop);
    this.#logprobs = logprobs === null ? null : new HeldLogprobs();
    this.#alternatives = logprobs ?? 0;
    this.#spelling = spelling;
    this.#text = new TokenText(detokenize);
  }

  /** Tokens of the answer, held-back ones included, without the one that ends it. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** Whether the answer has ended: a stop string was found, or the answer is complete. */
  get isOver(): boolean {
    return this.#stopped || this.#reader.done;
  }

  push({ token, probabilities }: DecodedToken): readonly GenEvent[] {
    this.#tokens.push(token);
    const text = this.#text.push(token);
    if (this.#logprobs !== null && probabilities !== null) {
      this.#logprobs.add(tokenLogprob(token, probabilities, this.#alternatives, this.#spelling), text);
    }
    const events = text === "" ? [] : this.#eventsOf(this.#reader.push(text));
    if (this.#kind === "reasoning") this.reasoningTokens++;
    // Tokens that mark the beginning or end of thoughts or a call are not content either.
    if (this.#kind !== "text") this.#logprobs?.drop();
    return events;
  }

  /** `cut`: the answer reached its maximum length before the model ended it. */
  end(cut: boolean): ChoiceEnd {
    if (this.#stopped) return { events: [], ...this.#stopEnd() };
    const events = [...this.#eventsOf(this.#reader.push(this.#text.flush()))];
    const { parts, reason, fault } = this.#reader.end(cut);
    events.push(...this.#eventsOf(parts));
    if (this.#stopped) return { events, ...this.#stopEnd() };
    events.push(...this.#heldText());
    // The remaining log probabilities belong to tokens without text.
    const logprobs = this.#logprobs?.rest() ?? [];
    if (logprobs.length > 0) events.push({ type: "text", choice, text: "", outTokens: this.#tokens.length, logprobs });
    return { events, reason, stopSequence: null, fault };
  }

  #stopEnd(): Omit<ChoiceEnd, "events"> {
    return { reason: "stop", stopSequence: this.#stops?.found ?? null, fault: null };
  }

  #eventsOf(parts: readonly OutputPart[]): readonly GenEvent[] {
    const events: GenEvent[] = [];
    for (const part of parts) {
      if (this.#stopped) break;
      if (part.type === "text") {
        events.push(...this.#textEvents(part.text));
      } else {
        if (this.#kind === "text") events.push(...this.#heldText());
        events.push({ ...part, choice, outTokens: this.#tokens.length });
      }
      this.#kind = part.type;
    }
    return events;
  }

  #textEvents(text: string): readonly GenEvent[] {
    if (this.#stops === null) return this.#shown(text);
    const { emit, stopped } = this.#stops.push(text);
    this.#stopped = stopped;
    return this.#shown(emit);
  }

  #shown(text: string): readonly GenEvent[] {
    if (text === "") return [];
    const event = { type: "text", choice, text, outTokens: this.#tokens.length } as const;
    return [this.#logprobs === null ? event : { ...event, logprobs: this.#logprobs.show(text.length) }];
  }

  /** Text that was held back because it could begin a stop string. */
  #heldText(): readonly GenEvent[] {
    return this.#shown(this.#stops?.flush() ?? "");
  }
}

const replacement = "\uFFFD";
const replacementsAtEnd = /\uFFFD+$/;
/** After this many tokens without a new code point, the text is ill-formed: a code point has at most four bytes. */
const stuckMax = 8;
/** Maximum pending tokens, if each ends one code point and begins the next; more are emitted with a broken code point. */
const pendingTokensMax = 256;
/** Number of tokens before a text that can decide about its leading space. */
const contextTokens = 3;

/**
 * The text of a stream of tokens, in whole code points. Text that ends in U+FFFD may be the beginning of a code point, so
 * it is held back for the next tokens; a U+FFFD that the model wrote itself is emitted with them.
 */
export class TokenText {
  readonly #detokenize: (tokens: readonly number[], before: readonly number[]) => string;
  #before: readonly number[] = [];
  #pending: number[] = [];
  /** The emitted part of the pending tokens' text. */
  #emitted = "";
  /** Number of tokens since text was last emitted. */
  #stuck = 0;

  /** `before`: the tokens before `tokens`; in some tokenizers a leading space depends on them. */
  constructor(detokenize: (tokens: readonly number[], before: readonly number[]) => string) {
    this.#detokenize = detokenize;
  }

  push(token: number): string {
    this.#pending.push(token);
    const text = this.#detokenize(this.#pending, this.#before);
    if (!text.endsWith(replacement) || this.#pending.length >= pendingTokensMax) return this.#release(text);
    const rest = this.#emit(text.replace(replacementsAtEnd, ""));
    this.#stuck = rest === "" ? this.#stuck + 1 : 0;
    return this.#stuck < stuckMax ? rest : this.#release(text);
  }

  /** The pending text; an incomplete code point becomes U+FFFD. */
  flush(): string {
    return this.#pending.length === 0 ? "" : this.#release(this.#detokenize(this.#pending, this.#before));
  }

  #release(text: string): string {
    const rest = this.#emit(text);
    this.#before = [...this.#before, ...this.#pending].slice(-contextTokens);
    this.#pending = [];
    this.#emitted = "";
    this.#stuck = 0;
    return rest;
  }

  #emit(text: string): string {
    const rest = text.slice(this.#emitted.length);
    if (text.length > this.#emitted.length) this.#emitted = text;
    return rest;
  }
}

/** Log probability that stands for minus infinity, which JSON cannot express (RESP-9). */
export const never = -9999;

/** Log probabilities after all samplers, of the token and of the `top` most likely ones. `probabilities`: most likely first. */
export function tokenLogprob(
  token: number,
  probabilities: ReadonlyMap<number, number>,
  top: number,
  spelling: TokenSpelling,
): TokenLogprobInfo {
  const best: TokenLogprob[] = [];
  for (const [other, probability] of probabilities) {
    if (best.length === top || probability === 0) break;
    best.push({ ...spelling.spell(other), logprob: Math.log(probability) });
  }
  const own = probabilities.get(token) ?? 0;
  return { ...spelling.spell(token), logprob: own === 0 ? never : Math.log(own), top: best };
}

interface HeldLogprob {
  readonly logprob: TokenLogprobInfo;
  /** End of the token's text in the generated text, in UTF-16 units; null until the text is complete. */
  end: number | null;
}

/** Keeps log probabilities until the text of their tokens is emitted, so that each event has those of its own tokens. */
export class HeldLogprobs {
  #held: HeldLogprob[] = [];
  #generated = 0;
  #shown = 0;
  #inStep = true;

  /** `text`: completed by the token; empty if the token ends inside of a character. */
  add(logprob: TokenLogprobInfo, text: string): void {
    this.#held.push({ logprob, end: null });
    if (text === "") return;
    this.#generated += text.length;
    for (const held of this.#held) held.end ??= this.#generated;
  }

  /** The log probabilities of the tokens whose text ends in the next `chars`. */
  show(chars: number): readonly TokenLogprobInfo[] {
    if (!this.#inStep) return this.rest();
    this.#shown += chars;
    const open = this.#held.findIndex(({ end }) => end === null || end > this.#shown);
    const complete = this.#held.splice(0, open === -1 ? this.#held.length : open);
    return complete.map(({ logprob }) => logprob);
  }

  /** Drops all log probabilities. Called for text of calls or thoughts, after which the positions no longer match. */
  drop(): void {
    this.#held = [];
    this.#inStep = false;
  }

  /** The remaining log probabilities. */
  rest(): readonly TokenLogprobInfo[] {
    return this.#held.splice(0).map(({ logprob }) => logprob);
  }
}
