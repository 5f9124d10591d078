import { fixedLimits } from "../../contract/limits.js";
import { crc32, sha256Hex } from "../../lib/crypto.js";
import { checkAccountName, type KeyPriority, type Scope } from "../call/principal.js";
import { type RateLimits, rateLimitMax, unlimited } from "../call/rate-limits.js";
import { checkCount, checkInteger, checkLength, checkPresent, refuse } from "../call/service-error.js";
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

/** SHA-256 in lower-case hex, under which keys are stored and compared. 256 random bits need no stretching. */
export function hashApiKey(text: string): string {
  return sha256Hex(text);
}

/**
 * First 10 and last 4 characters of a secret for display; empty for a secret so short that they would help to guess the
 * rest.
 */
export function shownEndsOf(secret: string): { readonly prefix: string; readonly last4: string } {
  if (secret.length < 32) return { prefix: "", last4: "" };
  return { prefix: secret.slice(0, 10), last4: secret.slice(-4) };
}

function checksumOf(body: string): string {
  return toBase62(BigInt(crc32(body)), checksumChars);
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

/**
 * Input of a new key. An absent or empty account means `default`, absent models mean all, and absent limits mean the
 * configured defaults.
 */
export interface NewKey {
  readonly name: string;
  readonly scope: Scope | null;
  readonly account?: string | null | undefined;
  readonly models?: readonly string[] | undefined;
  readonly limits?: RateLimits | undefined;
  /** Null: default. */
  readonly priority?: KeyPriority | null | undefined;
  readonly expiresAtMs?: number | null | undefined;
}

/** The checked input of a new key, with all fields set. */
export interface CheckedNewKey {
  readonly name: string;
  readonly scope: Scope;
  readonly account: string;
  readonly models: readonly string[];
  readonly limits: RateLimits;
  readonly priority?: KeyPriority | null | undefined;
  readonly expiresAtMs: number | null;
}

export const defaultAccount = "default";

const nameCharsMax = 128;
const modelsMax = 100;
const controlCharacter = /\p{Cc}/u;
/** Form of a model id (MODEL-6). The `*` at the end of a prefix is removed before the check. */
const modelIdForm = /^(?!\/)[^\s\p{Cc}?#%*]+$/u;

/** Throws ServiceError naming the field at fault. */
export function checkNewKey(input: NewKey, nowMs: number): CheckedNewKey {
  if (input.scope === null) return refuse("missing_required_parameter", "scope", "'scope' is required.");
  return {
    name: checkName(input.name),
    scope: input.scope,
    account: checkAccountName(input.account || defaultAccount),
    models: checkModels(input.models ?? []),
    limits: checkLimits(input.limits ?? unlimited),
    priority: input.priority,
    expiresAtMs: checkExpiry(input.expiresAtMs ?? null, nowMs),
  };
}

/** Checks a change of a key and returns it. Throws ServiceError naming the field at fault. */
export function checkKeyChange(change: KeyChange, nowMs: number): KeyChange {
  const { name, models, limits, expiresAtMs } = change;
  if (name !== undefined) checkName(name);
  if (models !== undefined) checkModels(models);
  if (limits !== undefined) checkLimits(limits);
  if (expiresAtMs !== undefined) checkExpiry(expiresAtMs, nowMs);
  return change;
}

function checkName(name: string): string {
  checkPresent(name, "name");
  checkLength(name, "name", nameCharsMax);
  if (controlCharacter.test(name)) refuse("invalid_value", "name", "'name' must not contain a control character.");
  return name;
}

function checkModels(models: readonly string[]): readonly string[] {
  checkCount(models.length, "models", modelsMax);
  models.forEach((model, position) => {
    const id = model.endsWith("*") ? model.slice(0, -1) : model;
    const isValid = id.length <= fixedLimits.modelIdCharsMax && (modelIdForm.test(id) || model === "*");
    if (!isValid) {
      const sentence = "A model must be a model id, or the start of one followed by '*'.";
      refuse("invalid_value", `models[${position}]`, sentence);
    }
  });
  return models;
}

/** Returns the expiry; null means never. Throws ServiceError for a time in the past. */
export function checkExpiry(expiresAtMs: number | null, nowMs: number): number | null {
  if (expiresAtMs === null || (Number.isSafeInteger(expiresAtMs) && expiresAtMs > nowMs)) return expiresAtMs;
  return refuse("invalid_value", "expires_at", "'expires_at' must be a time in the future.");
}

const overlapDefaultMs = 86_400_000;
const overlapMaxMs = 7 * 86_400_000;

/** Time during which a replaced secret still works; null means 24 h. Throws ServiceError outside 0 s to 7 days. */
export function checkOverlap(overlapMs: number | null): number {
  const chosenMs = overlapMs ?? overlapDefaultMs;
  if (chosenMs < 0) refuse("integer_below_min_value", "overlap", "'overlap' must be 0 s or more.");
  if (chosenMs > overlapMaxMs) refuse("integer_above_max_value", "overlap", "'overlap' must be 7 days or less.");
  return chosenMs;
}

/** Throws ServiceError that names the field as `limits.<field>`, unless every limit that is set is 1 or more. */
export function checkLimits(limits: RateLimits): RateLimits {
  checkLimit(limits.requestsPerMinute, "limits.requests_per_minute");
  checkLimit(limits.tokensPerMinute, "limits.tokens_per_minute");
  checkLimit(limits.concurrency, "limits.concurrency");
  return limits;
}

function checkLimit(value: number | null, param: string): void {
  checkInteger(value ?? undefined, param, 1, rateLimitMax);
}
