const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const base = BigInt(alphabet.length);

/**
 * Writes a number of 0 or more in 0-9, A-Z, a-z, most significant first, filled up with `0` to exactly `width`
 * characters. Throws RangeError when the number needs more. 43 characters hold 256 bits, 6 hold 32.
 */
export function toBase62(value: bigint, width: number): string {
  let text = "";
  for (let rest = value; rest > 0n; rest /= base) text = alphabet.charAt(Number(rest % base)) + text;
  if (value < 0n || text.length > width) throw new RangeError(`the number does not fit ${width} base62 characters`);
  return text.padStart(width, "0");
}
