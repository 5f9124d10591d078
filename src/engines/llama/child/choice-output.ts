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
  /** Why the result breaks its form; null: it does not. */
  readonly fault: string | null;
}

/** The domain runs the choices of a request one by one. */
const choice = 0;

/** StepBatcher the tokens of an answer into its events: text, then what the text means, then what of it may be shown. */
export class ChoiceOutput {
  readonly #reader: OutputReader;
  readonly #stops: StopSequences | null;
  readonly #logprobs: HeldLogprobs | null;
  readonly #alternatives: number;
  readonly #spelling: TokenSpelling;
  readonly #text: TokenText;
  readonly #tokens: number[] = [];
  #reasoningTokens = 0;
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

  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** Whether nothing may follow: a stop string was found, or the answer is complete. */
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
    if (this.#kind === "reasoning") this.#reasoningTokens++;
    // Tokens that only mark where thoughts or a call begin and end are no content either.
    if (this.#kind !== "text") this.#logprobs?.drop();
    return events;
  }

  /** `cut`: there is no room for more, and the model had not ended. */
  end(cut: boolean): ChoiceEnd {
    if (this.#stopped) return { events: [], reason: "stop", fault: null };
    const last = this.#eventsOf(this.#reader.push(this.#text.flush()));
    const { parts, reason, fault } = this.#reader.end(cut);
    const events = this.#stopped ? last : [...last, ...this.#eventsOf(parts)];
    if (this.#stopped) return { events, reason: "stop", fault: null };
    return { events: [...events, ...this.#heldText(), ...this.#owedLogprobs()], reason, fault };
  }

  #eventsOf(parts: readonly OutputPart[]): readonly GenEvent[] {
    const events: GenEvent[] = [];
    for (const part of parts) {
      if (this.#stopped) break;
      if (part.type === "text") {
        events.push(...this.#textEvents(part.text));
      } else {
        if (this.#kind === "text") events.push(...this.#heldText());
        const outTokens = this.#tokens.length;
        events.push({ ...part, choice, outTokens });
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

  /** What could have been the beginning of a stop string. */
  #heldText(): readonly GenEvent[] {
    return this.#shown(this.#stops?.flush() ?? "");
  }

  /** Those of tokens that made no text. */
  #owedLogprobs(): readonly GenEvent[] {
    const logprobs = this.#logprobs?.rest() ?? [];
    return logprobs.length === 0 ? [] : [{ type: "text", choice, text: "", outTokens: this.#tokens.length, logprobs }];
  }
}

const replacement = "\uFFFD";
/** Tokens without a new whole code point: one has four bytes at most and a token brings at least one, so it never comes. */
const stuckMax = 8;
/** Tokens may end one code point and begin the next again and again; beyond this a broken one is better than the wait. */
const pendingTokensMax = 256;
/** What a tokenizer looks at to know whether a space belongs before the next token. */
const contextTokens = 3;

/**
 * The text of tokens as they come, never half a code point. What ends in U+FFFD may be the beginning of a code point, so
 * it waits for the next tokens; one that the model wrote itself comes out with them.
 */
export class TokenText {
  readonly #detokenize: (tokens: readonly number[], before: readonly number[]) => string;
  #before: readonly number[] = [];
  #pending: number[] = [];
  /** Of the pending tokens' text, what is out. */
  #given = "";
  /** Tokens since something came out. */
  #stuck = 0;

  /** `before`: the tokens before those, for tokenizers that decide about spaces by them; without effect on others. */
  constructor(detokenize: (tokens: readonly number[], before: readonly number[]) => string) {
    this.#detokenize = detokenize;
  }

  push(token: number): string {
    this.#pending.push(token);
    const text = this.#detokenize(this.#pending, this.#before);
    if (!text.endsWith(replacement) || this.#pending.length >= pendingTokensMax) return this.#release(text);
    const rest = this.#give(withoutEnd(text));
    this.#stuck = rest === "" ? this.#stuck + 1 : 0;
    return this.#stuck < stuckMax ? rest : this.#release(text);
  }

  /** What is still pending; half a code point as U+FFFD. */
  flush(): string {
    return this.#pending.length === 0 ? "" : this.#release(this.#detokenize(this.#pending, this.#before));
  }

  #release(text: string): string {
    const rest = this.#give(text);
    this.#before = [...this.#before, ...this.#pending].slice(-contextTokens);
    this.#pending = [];
    this.#given = "";
    this.#stuck = 0;
    return rest;
  }

  #give(text: string): string {
    const rest = text.slice(this.#given.length);
    this.#given = text.length > this.#given.length ? text : this.#given;
    return rest;
  }
}

function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === replacement) end--;
  return text.slice(0, end);
}

/** Stands for "never": what JSON can say in place of minus infinity (RESP-9). */
const never = -9999;

/** What the samplers left of the probabilities, as log probabilities: of the token, and of the `top` most likely ones. */
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
  return { ...spelling.spell(token), logprob: logOf(probabilities.get(token)), top: best };
}

function logOf(probability: number | undefined): number {
  return probability === undefined || probability === 0 ? never : Math.log(probability);
}

interface HeldLogprob {
  readonly logprob: TokenLogprobInfo;
  /** Where its text ends in the generated text, in UTF-16 units; null until that text is complete. */
  end: number | null;
}

/** Keeps log probabilities until the text of their tokens goes out, so that each event has those of its own tokens. */
export class HeldLogprobs {
  #held: HeldLogprob[] = [];
  #generated = 0;
  #shown = 0;
  #inStep = true;

  /** `text`: what the token made complete; empty when it ends inside of a character. */
  add(logprob: TokenLogprobInfo, text: string): void {
    this.#held.push({ logprob, end: null });
    if (text === "") return;
    this.#generated += text.length;
    for (const held of this.#held) held.end ??= this.#generated;
  }

  /** The next event shows so much of the text: the tokens that it completes. */
  show(chars: number): readonly TokenLogprobInfo[] {
    if (!this.#inStep) return this.rest();
    this.#shown += chars;
    const open = this.#held.findIndex(({ end }) => end === null || end > this.#shown);
    const complete = this.#held.splice(0, open === -1 ? this.#held.length : open);
    return complete.map(({ logprob }) => logprob);
  }

  /** Text went into a call or into thinking, where log probabilities have no place; positions no longer agree. */
  drop(): void {
    this.#held = [];
    this.#inStep = false;
  }

  /** All that are left. */
  rest(): readonly TokenLogprobInfo[] {
    return this.#held.splice(0).map(({ logprob }) => logprob);
  }
}
