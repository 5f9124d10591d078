import { createHash } from "node:crypto";

/**
 * The unit vector of a text: the same text gives the same vector on every machine. Its first numbers are the same for
 * every length, as in models whose vectors may be shortened.
 */
export function vectorOf(text: string, dimensions: number): Float32Array {
  const numbers = new Float64Array(dimensions);
  let state = createHash("sha256").update(text).digest().readUInt32LE(0) || 1;
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) {
    // Pseudo-random numbers from -1 to 1, never 0: xorshift32 on four bytes of the hash.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    const number = (state >>> 0) / 2 ** 31 - 1 || Number.EPSILON;
    numbers[i] = number;
    sum += number * number;
  }
  const length = Math.sqrt(sum);
  return new Float32Array(numbers.map((number) => number / length));
}

/** Runs of letters and digits, in any script. */
const word = /[\p{L}\p{N}]+/gu;

/** The different words of a text, in lower case. */
export function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(word));
}

/** The share of the query's words that the document has: from 0 to 1, and 0 for a query without words. */
export function sharedWords(query: ReadonlySet<string>, document: string): number {
  const words = wordsOf(document);
  let shared = 0;
  for (const wanted of query) if (words.has(wanted)) shared += 1;
  return query.size === 0 ? 0 : shared / query.size;
}
