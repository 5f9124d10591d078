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
