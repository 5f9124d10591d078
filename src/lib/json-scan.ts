/** What a look at raw JSON bytes found, before anything is built from them. */
export type JsonScan = "ok" | "too_deep" | "too_many_tokens";

/** How much JSON there may be. */
export interface JsonMax {
  readonly depth: number;
  readonly tokens: number;
}

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Bytes that are part of a number, of true, false or null, or of rubbish that the parser will refuse. */
const isScalarByte = new Uint8Array(256).fill(1);
for (const byte of [0x20, 0x09, 0x0a, 0x0d, 0x2c, 0x3a, quote, openBrace, closeBrace, openBracket, closeBracket]) {
  isScalarByte[byte] = 0;
}

/**
 * Measures JSON without parsing it, in one pass: nesting, and tokens (brackets, keys and values). JSON.parse itself
 * survives both, but what is built from it does not: a million small values block everybody else while they are made.
 * Whether the text is JSON at all is for the parser to say.
 */
export function scanJson(bytes: Buffer, max: JsonMax): JsonScan {
  let depth = 0;
  let tokens = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) {
      tokens += 1;
      at = afterString(bytes, at);
    } else if (isScalarByte[byte] === 1) {
      tokens += 1;
      at = afterScalar(bytes, at);
    } else {
      if (byte === openBrace || byte === openBracket) {
        depth += 1;
        tokens += 1;
        if (depth > max.depth) return "too_deep";
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        tokens += 1;
      }
      at += 1;
    }
    if (tokens > max.tokens) return "too_many_tokens";
  }
  return "ok";
}

/**
 * Whether a text is so short and has so few brackets, those in strings included, that scanJson would find nothing: true
 * for nearly all bodies, at a fraction of its cost.
 */
export function isPlainlySmall(text: string, max: JsonMax): boolean {
  return text.length <= max.tokens && countUpTo(text, "{", max.depth) + countUpTo(text, "[", max.depth) <= max.depth;
}

/** Occurrences of a character, at most one more than `max`. */
function countUpTo(text: string, character: string, max: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at !== -1 && count <= max; at = text.indexOf(character, at + 1)) count += 1;
  return count;
}

/** `at` is the opening quote. Long texts are skipped by the native search. */
function afterString(bytes: Buffer, at: number): number {
  let end = bytes.indexOf(quote, at + 1);
  while (end !== -1 && isEscaped(bytes, end, at)) end = bytes.indexOf(quote, end + 1);
  return end === -1 ? bytes.length : end + 1;
}

/** Whether an odd number of backslashes stands before the quote. Each run is walked once: it belongs to one quote. */
function isEscaped(bytes: Buffer, at: number, start: number): boolean {
  let first = at;
  while (first - 1 > start && bytes[first - 1] === backslash) first -= 1;
  return (at - first) % 2 === 1;
}

function afterScalar(bytes: Buffer, at: number): number {
  let end = at + 1;
  while (end < bytes.length && isScalarByte[bytes[end] ?? 0] === 1) end += 1;
  return end;
}
