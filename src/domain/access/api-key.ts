import { fixedLimits } from "../../contract/limits.js";
import { sha256Hex } from "../../lib/crypto.js";
import { checkAccountName, type Scope } from "../call/principal.js";
import { type RateLimits, rateLimitMax, unlimited } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { KeyChange } from "./key-store.js";

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

/** What an administrator asks for; an absent or empty account is `default`, absent models are all, absent limits none. */
export interface NewKey {
  readonly name: string;
  readonly scope: Scope | null;
  readonly account?: string | null | undefined;
  readonly models?: readonly string[] | undefined;
  readonly limits?: RateLimits | undefined;
  readonly expiresAtMs?: number | null | undefined;
}

/** The same, complete and within bounds. */
export interface CheckedNewKey {
  readonly name: string;
  readonly scope: Scope;
  readonly account: string;
  readonly models: readonly string[];
  readonly limits: RateLimits;
  readonly expiresAtMs: number | null;
}

export const defaultAccount = "default";

const nameCharsMax = 128;
const modelsMax = 100;
const controlCharacter = /\p{Cc}/u;
/** A model id as MODEL-6 has them; the `*` of a prefix is taken off before. */
const modelIdForm = /^(?!\/)[^\s\p{Cc}?#%*]+$/u;

/** Throws ServiceError naming the field at fault. */
export function checkNewKey(input: NewKey, nowMs: number): CheckedNewKey {
  if (input.scope === null) throw missing("scope");
  return {
    name: checkName(input.name),
    scope: input.scope,
    account: checkAccountName(input.account || defaultAccount),
    models: checkModels(input.models ?? []),
    limits: checkLimits(input.limits ?? unlimited),
    expiresAtMs: checkExpiry(input.expiresAtMs ?? null, nowMs),
  };
}

/** The same change. Throws ServiceError naming the field at fault. */
export function checkKeyChange(change: KeyChange, nowMs: number): KeyChange {
  const { name, models, limits, expiresAtMs } = change;
  if (name !== undefined) checkName(name);
  if (models !== undefined) checkModels(models);
  if (limits !== undefined) checkLimits(limits);
  if (expiresAtMs !== undefined) checkExpiry(expiresAtMs, nowMs);
  return change;
}

function checkName(name: string): string {
  if (name === "") throw missing("name");
  if (name.length > nameCharsMax) {
    throw new ServiceError(
      "string_above_max_length",
      `'name' has ${name.length} characters; at most ${nameCharsMax} are allowed.`,
      { param: "name" },
    );
  }
  if (controlCharacter.test(name)) throw invalid("name", "'name' holds a control character.");
  return name;
}

function checkModels(models: readonly string[]): readonly string[] {
  if (models.length > modelsMax) {
    throw new ServiceError(
      "array_above_max_length",
      `'models' has ${models.length} items; at most ${modelsMax} are allowed.`,
      { param: "models" },
    );
  }
  models.forEach((model, position) => {
    const id = model.endsWith("*") ? model.slice(0, -1) : model;
    const ok = id.length <= fixedLimits.modelIdCharsMax && (modelIdForm.test(id) || model === "*");
    if (!ok) throw invalid(`models[${position}]`, "A model must be a model id, or the start of one followed by '*'.");
  });
  return models;
}

/** Null is never. Throws ServiceError for an instant that has passed. */
export function checkExpiry(expiresAtMs: number | null, nowMs: number): number | null {
  if (expiresAtMs === null || (Number.isSafeInteger(expiresAtMs) && expiresAtMs > nowMs)) return expiresAtMs;
  throw invalid("expires_at", "'expires_at' must be a time in the future.");
}

function missing(param: string): ServiceError {
  return new ServiceError("missing_required_parameter", `'${param}' is required.`, { param });
}

function invalid(param: string, message: string): ServiceError {
  return new ServiceError("invalid_value", message, { param });
}

const fields = [
  ["requestsPerMinute", "requests_per_minute"],
  ["tokensPerMinute", "tokens_per_minute"],
  ["concurrency", "concurrency"],
] as const;

/** Throws ServiceError naming the field at fault, as `limits.<field>`, unless every limit that is set is 1 or more. */
export function checkLimits(limits: RateLimits): RateLimits {
  for (const [field, name] of fields) checkLimit(limits[field], `limits.${name}`);
  return limits;
}

function checkLimit(value: number | null, param: string): void {
  if (value === null) return;
  if (!Number.isInteger(value) || value < 1) {
    throw new ServiceError("integer_below_min_value", `'${param}' must be a whole number of 1 or more, not ${value}.`, {
      param,
    });
  }
  if (value > rateLimitMax) {
    throw new ServiceError("integer_above_max_value", `'${param}' must be ${rateLimitMax} or less, not ${value}.`, {
      param,
    });
  }
}
