import { createHash } from "node:crypto";
import type { TokenLogprobInfo } from "../../domain/engine/engine.js";

/**
 * Tokens of the scripted engine: one run of non-space characters with the spaces before it; a space at the end of the
 * text belongs to the last token. A text of nothing but spaces is one token, so that no character is ever lost.
 */

/** Every character that `\s` matches. A loop and not an expression: `\s*\S+` takes quadratic time on spaces. */
function isSpace(code: number): boolean {
  if (code > 0x20 && code < 0xa0) return false;
  if (code <= 0x20) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return isSpaceBeyondLatin(code);
}

/** From U+00A0 on. */
function isSpaceBeyondLatin(code: number): boolean {
  return (
    code === 0xa0 ||
    code === 0x1680 ||
    (code >= 0x2000 && code <= 0x200a) ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x202f ||
    code === 0x205f ||
    code === 0x3000 ||
    code === 0xfeff
  );
}

/** The end of the first run of non-space characters from `start` on, in UTF-16 code units; -1: only spaces are left. */
function nextRunEnd(text: string, start: number): number {
  let i = start;
  while (i < text.length && isSpace(text.charCodeAt(i))) i++;
  if (i === text.length) return -1;
  while (i < text.length && !isSpace(text.charCodeAt(i))) i++;
  return i;
}

/** By UTF-16 code unit: 0 for spaces, 1 for all else. */
const inkByCode = Uint8Array.from({ length: 0x10000 }, (_, code) => (isSpace(code) ? 0 : 1));

/** Where short texts are laid out to be counted. */
const bytes = Buffer.alloc(16_384);
/** In UTF-8, of one UTF-16 code unit. */
const bytesPerCodeMax = 3;

/** Number of tokens; 0 for the empty text only. */
export function countTokens(text: string): number {
  const isShort = text.length * bytesPerCodeMax <= bytes.length;
  // As many bytes as characters: ASCII. A byte is read at a third of the cost of a character of a string.
  const count = isShort && bytes.write(text) === text.length ? runsOfBytes(text.length) : runsOfText(text);
  return count === 0 && text.length > 0 ? 1 : count;
}

/** Runs of non-space characters. Without a branch per character: where words end cannot be foreseen. */
function runsOfText(text: string): number {
  let count = 0;
  let before = 0;
  for (let i = 0; i < text.length; i++) {
    const ink = inkByCode[text.charCodeAt(i)] ?? 0;
    count += ink & ~before;
    before = ink;
  }
  return count;
}

/** The same of the ASCII text that is laid out. */
function runsOfBytes(length: number): number {
  let count = 0;
  let before = 0;
  for (let i = 0; i < length; i++) {
    const ink = inkByCode[bytes[i] ?? 0] ?? 0;
    count += ink & ~before;
    before = ink;
  }
  return count;
}

/** The tokens of a text; joined they are the text. */
export function splitTokens(text: string): readonly string[] {
  const tokens: string[] = [];
  let start = 0;
  for (let end = nextRunEnd(text, 0); end >= 0; end = nextRunEnd(text, end)) {
    tokens.push(text.slice(start, end));
    start = end;
  }
  if (start === text.length) return tokens;
  const rest = text.slice(start);
  return tokens.length === 0 ? [rest] : [...tokens.slice(0, -1), `${tokens.at(-1)}${rest}`];
}

export function beginsWithSpace(text: string): boolean {
  return text.length > 0 && isSpace(text.charCodeAt(0));
}

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

const said = -0.1;
/** Chosen so that the probabilities of a position stay below 1 together: e^-0.1 + e^-4 + e^-5 + … = 0.934. */
const firstAlternative = -4;

/** The log probability that every token has, with made-up alternatives after the token itself, best first. */
export function tokenLogprob(token: string, alternatives: number): TokenLogprobInfo {
  const top = Array.from({ length: alternatives }, (_, i) =>
    i === 0 ? { token, logprob: said } : { token: `${token}~${i}`, logprob: firstAlternative - (i - 1) },
  );
  return { token, logprob: said, top };
}

/**
 * The unit vector of a text: the same text gives the same vector on every machine. Its first numbers are the same for
 * every length, as in models whose vectors may be shortened.
 */
export function vectorOf(text: string, native: number, dimensions: number): Float32Array {
  const next = numbersFrom(createHash("sha256").update(text).digest());
  const numbers = Array.from({ length: native }, next).slice(0, dimensions);
  const length = Math.sqrt(numbers.reduce((sum, number) => sum + number * number, 0));
  return Float32Array.from(numbers, (number) => number / length);
}

/** Pseudo-random numbers from -1 to 1, never 0: xorshift32 on four bytes of the hash. */
function numbersFrom(hash: Buffer): () => number {
  let state = hash.readUInt32LE(0) || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 31 - 1 || Number.EPSILON;
  };
}
