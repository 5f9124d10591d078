import type { FinishReason, GenEvent, TokenLogprobInfo } from "../../domain/engine/engine.js";
import { StopSequences } from "../../domain/inference/stop-sequences.js";
import type { Choice } from "./choice.js";
import type { Script } from "./script.js";
import { tokenLogprob } from "./token-logprob.js";
import { splitTokens } from "./tokens.js";

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
