/**
 * What an API key looks like (KEY-1): `sk-uis-`, 43 base62 characters that hold 256 random bits, and 6 that hold the
 * CRC-32 of everything before them. A typo is refused without asking the store, and secret scanners know a real key.
 * Keys that an operator registers (`UIS_BOOTSTRAP_API_KEY`) have a form of their own and no checksum.
 */
import { toBase62 } from "../../lib/base62.js";
import { crc32 } from "../../lib/crc32.js";
import { sha256Hex } from "../../lib/digest.js";

/** Random bytes that nobody can guess, e.g. `randomBytes` of node:crypto. */
export type RandomBytes = (count: number) => Uint8Array;

const lead = "sk-uis-";
const randomChars = 43;
const checksumChars = 6;

/** Source of a regular expression for secret scanners. */
export const apiKeyPattern = `${lead}[0-9A-Za-z]{${randomChars + checksumChars}}`;

const keyForm = new RegExp(`^${apiKeyPattern}$`);
const presentableForm = /^[\x21-\x7e]{8,256}$/;

/** A new secret. It is shown to its owner once and kept nowhere. */
export function newApiKeySecret(random: RandomBytes): string {
  const body = lead + toBase62(BigInt(`0x${Buffer.from(random(32)).toString("hex")}`), randomChars);
  return body + checksumOf(body);
}

/** Whether the text is a key as newApiKeySecret makes them, checksum included. */
export function isApiKeySecret(text: string): boolean {
  return keyForm.test(text) && checksumOf(text.slice(0, -checksumChars)) === text.slice(-checksumChars);
}

/** Whether the text has the form of our keys but not their checksum: no store needs to be asked. */
export function isMistypedApiKey(text: string): boolean {
  return keyForm.test(text) && !isApiKeySecret(text);
}

/** Whether the text can be a key at all: ours, or an operator's own of 8 to 256 printable characters without spaces. */
export function isPresentable(text: string): boolean {
  return presentableForm.test(text);
}

/** SHA-256 in lower-case hex: how keys are kept, found and compared. Fast on purpose: 256 random bits need no stretching. */
export function hashApiKey(text: string): string {
  return sha256Hex(text);
}

/** First characters of a secret for people to recognise it by; empty for one so short that it would give too much away. */
export function prefixOf(secret: string): string {
  return secret.length < recognisableChars ? "" : secret.slice(0, 10);
}

/** Last characters of a secret; empty for one so short that it would give too much away. */
export function last4Of(secret: string): string {
  return secret.length < recognisableChars ? "" : secret.slice(-4);
}

/** With fewer, 14 shown characters would leave a secret that can be guessed. */
const recognisableChars = 32;

function checksumOf(body: string): string {
  return toBase62(BigInt(crc32(Buffer.from(body, "latin1"))), checksumChars);
}
