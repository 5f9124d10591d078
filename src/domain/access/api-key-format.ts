/**
 * Format of API keys (KEY-1): `sk-uis-`, 43 base62 characters with 256 random bits, and 6 with the CRC-32 of the rest.
 * A typo is rejected without a look-up, and secret scanners recognise real keys. Keys that an operator registers
 * (`UIS_BOOTSTRAP_API_KEY`) have any form and no checksum.
 */
import { toBase62 } from "../../lib/base62.js";
import { crc32 } from "../../lib/crc32.js";
import { sha256Hex } from "../../lib/digest.js";

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
