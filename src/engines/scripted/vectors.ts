import { createHash } from "node:crypto";

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
