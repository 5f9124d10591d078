import { beginsWithSpace, splitTokens } from "./tokens.js";

/**
 * A text as a sequence of tokens, repeated or cut to a number of them. Repetition is not written out: a script of a
 * million tokens takes the memory of its text. Immutable but for a memo, so one script serves all requests of a model.
 */
export class Script {
  /** Number of tokens. */
  readonly length: number;
  readonly #cycle: readonly string[];
  /** The first token of every repetition but the first: it needs a space to be a token of its own. */
  readonly #again: string;
  #memo: { readonly to: number; readonly text: string } = { to: 0, text: "" };

  /** `tokens` null: the text as it is. */
  constructor(text: string, tokens: number | null) {
    this.#cycle = splitTokens(tokens === null ? text : text.trimEnd());
    const first = this.#cycle[0] ?? "";
    this.#again = beginsWithSpace(first) ? first : ` ${first}`;
    this.length = this.#cycle.length === 0 ? 0 : (tokens ?? this.#cycle.length);
  }

  /** Token `i`, from 0. */
  token(i: number): string {
    const at = i % this.#cycle.length;
    return at === 0 && i > 0 ? this.#again : (this.#cycle[at] ?? "");
  }

  /** Tokens `from` (included) to `to` (excluded), joined. */
  text(from: number, to: number): string {
    if (to - from === 1) return this.token(from);
    if (from === 0 && to === this.#memo.to) return this.#memo.text;
    let text = "";
    for (let i = from; i < to; i++) text += this.token(i);
    if (from === 0) this.#memo = { to, text };
    return text;
  }
}
