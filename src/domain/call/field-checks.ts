import type { ErrorCode } from "../../contract/errors.js";
import { ServiceError } from "./service-error.js";

/**
 * Checks of single fields of a request. Each throws a ServiceError that names the field as OpenAI does, what was
 * expected and what was given (ERR-2).
 */

const quotedCharsMax = 64;
/** Client libraries classify errors by these words, wherever they stand (ERR-3). */
const misleading = /rate[\s_-]?limit|context[\s_-]?length/i;

/** A value of the caller's for a message: short, on one line, and never one that would pass for another error. */
export function quote(text: string): string {
  const shown = text.slice(0, quotedCharsMax);
  if (misleading.test(shown)) return `a text of ${text.length} characters`;
  return text.length > quotedCharsMax ? `${JSON.stringify(shown)}…` : JSON.stringify(text);
}

export function refuse(code: ErrorCode, param: string, sentence: string): never {
  throw new ServiceError(code, sentence, { param });
}

/** Refuses an integer outside `min` to `max`, both allowed. Undefined passes. */
export function checkInteger(value: number | undefined, param: string, min: number, max: number): void {
  if (value === undefined) return;
  if (!Number.isInteger(value)) refuse("invalid_type", param, `'${param}' must be an integer, but is ${value}.`);
  if (value < min) refuse("integer_below_min_value", param, `'${param}' must be at least ${min}, but is ${value}.`);
  if (value > max) refuse("integer_above_max_value", param, `'${param}' must be at most ${max}, but is ${value}.`);
}

/** Refuses a number outside `min` to `max`, both allowed, and NaN. Undefined passes. */
export function checkNumber(value: number | undefined, param: string, min: number, max: number): void {
  if (value === undefined) return;
  if (Number.isNaN(value)) {
    refuse("invalid_value", param, `'${param}' must be a number from ${min} to ${max}, but is NaN.`);
  }
  if (value < min) refuse("decimal_below_min_value", param, `'${param}' must be at least ${min}, but is ${value}.`);
  if (value > max) refuse("decimal_above_max_value", param, `'${param}' must be at most ${max}, but is ${value}.`);
}

/** Refuses a text of more than `charsMax` UTF-16 code units. Undefined passes. */
export function checkLength(text: string | undefined, param: string, charsMax: number): void {
  if (text === undefined || text.length <= charsMax) return;
  refuse(
    "string_above_max_length",
    param,
    `'${param}' may have at most ${charsMax} characters, but has ${text.length}.`,
  );
}

/** Refuses a list of more than `itemsMax`. */
export function checkCount(count: number, param: string, itemsMax: number): void {
  if (count <= itemsMax) return;
  refuse("array_above_max_length", param, `'${param}' may have at most ${itemsMax} items, but has ${count}.`);
}

/** Refuses a list without items. */
export function checkNotEmpty(count: number, param: string): void {
  if (count === 0) refuse("empty_array", param, `'${param}' must have at least 1 item, but has none.`);
}

/** Refuses a text that is not one of `allowed`. Undefined passes. */
export function checkOneOf(text: string | undefined, param: string, allowed: readonly string[]): void {
  if (text === undefined || allowed.includes(text)) return;
  const list = allowed.map((value) => `'${value}'`).join(", ");
  refuse("invalid_value", param, `'${param}' must be one of ${list}, but is ${quote(text)}.`);
}

/** Refuses what the wire leaves empty when it is absent. */
export function checkPresent(text: string | undefined, param: string): void {
  if (text === undefined || text === "") {
    refuse("missing_required_parameter", param, `'${param}' is required, but is missing or empty.`);
  }
}

const functionName = /^[A-Za-z0-9_-]{1,64}$/;

/** Refuses a name of a function or schema that is not 1 to 64 of a-z, A-Z, 0-9, _ and -. */
export function checkFunctionName(name: string, param: string): void {
  checkPresent(name, param);
  if (functionName.test(name)) return;
  refuse(
    "invalid_value",
    param,
    `'${param}' must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, but is ${quote(name)}.`,
  );
}
