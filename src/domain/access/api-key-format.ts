import { sha256Hex } from "../../lib/digest.js";

/**
 * Format of API keys (KEY-1): `sk-uis-`, 43 base62 characters with 256 random bits, and 6 with the CRC-32 of the rest.
 * A typo is rejected without a look-up, and secret scanners recognise real keys. Keys that an operator registers
 * (`UIS_BOOTSTRAP_API_KEY`) have any form and no checksum.
 */

/** Cryptographically secure random bytes, e.g. `randomBytes` of node:crypto. */
export type RandomBytes = (count: number) => Uint8Array;

const lead = "sk-uis-";
const randomChars = 43;
const checksumChars = 6;

/** Source of a regular expression for secret scanners. */
export const apiKeyPattern = `${lead}[0-9A-Za-z]{${randomChars + checksumChars}}`;

const keyForm = new RegExp(`^${apiKeyPattern}$`);
const presentableForm = /^[\x21-\x7e]{8,256}$/;

/** Creates a secret. It is shown once and never stored. */
export function newApiKeySecret(random: RandomBytes): string {
  const body = lead + toBase62(BigInt(`0x${Buffer.from(random(32)).toString("hex")}`), randomChars);
  return body + checksumOf(body);
}

/** Whether the text is a well-formed key with a valid checksum. */
export function isApiKeySecret(text: string): boolean {
  return keyForm.test(text) && checksumOf(text.slice(0, -checksumChars)) === text.slice(-checksumChars);
}

/** Whether the text looks like our keys but its checksum is wrong: no look-up is needed. */
export function isMistypedApiKey(text: string): boolean {
  return keyForm.test(text) && !isApiKeySecret(text);
}

/** Whether the text can be a key: ours, or an operator's own of 8 to 256 printable characters without spaces. */
export function isPresentable(text: string): boolean {
  return presentableForm.test(text);
}

/**
 * SHA-256 in lower-case hex, under which keys are stored and compared. It needs no stretching: keys have 256 random
 * bits.
 */
export function hashApiKey(text: string): string {
  return sha256Hex(text);
}

/** First characters of a secret for display; empty for one too short to show a part of. */
export function prefixOf(secret: string): string {
  return secret.length < recognisableChars ? "" : secret.slice(0, 10);
}

/** Last characters of a secret for display; empty for one too short to show a part of. */
export function last4Of(secret: string): string {
  return secret.length < recognisableChars ? "" : secret.slice(-4);
}

/** A shorter secret could be guessed from the 14 characters shown. */
const recognisableChars = 32;

function checksumOf(body: string): string {
  return toBase62(BigInt(crc32(Buffer.from(body, "latin1"))), checksumChars);
}

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

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? 0xedb88320 ^ (remainder >>> 1) : remainder >>> 1;
  return remainder;
});

/** CRC-32 as zip and gzip use it, 0 to 2^32 - 1. Our own because node:zlib has it from 22.2 on only. */
export function crc32(bytes: Uint8Array): number {
  let remainder = 0xffffffff;
  for (const byte of bytes) remainder = (table[(remainder ^ byte) & 0xff] ?? 0) ^ (remainder >>> 8);
  return (remainder ^ 0xffffffff) >>> 0;
}
