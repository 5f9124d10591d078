import { fixedLimits } from "../../contract/limits.js";
import { checkAccountName, type Scope } from "../call/principal.js";
import { type RateLimits, rateLimitMax, unlimited } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { KeyChange } from "./key-store.js";

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
