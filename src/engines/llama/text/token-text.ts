const replacement = "\uFFFD";
/** A code point is four bytes at most, and a token brings at least one; the rest is for tokens that end one and begin another. */
const pendingTokensMax = 16;
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

  /** `before`: the tokens before those, for tokenizers that decide about spaces by them; without effect on others. */
  constructor(detokenize: (tokens: readonly number[], before: readonly number[]) => string) {
    this.#detokenize = detokenize;
  }

  push(token: number): string {
    this.#pending.push(token);
    const text = this.#detokenize(this.#pending, this.#before);
    const isWhole = !text.endsWith(replacement) || this.#pending.length >= pendingTokensMax;
    return isWhole ? this.#release(text) : this.#give(withoutEnd(text));
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
