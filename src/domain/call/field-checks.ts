import type { ErrorCode } from "../../contract/errors.js";
import { ServiceError } from "./service-error.js";

/**
 * Checks of single fields of a request. Each throws a ServiceError that names the field as OpenAI does, what was
 * expected and what was given (ERR-2).
 */

const quotedCharsMax = 64;
/** Client libraries classify errors by these words anywhere in the message (ERR-3). */
const misleading = /rate[\s_-]?limit|context[\s_-]?length/i;

/** Quotes a client's value for a message: one short line that cannot be mistaken for another error. */
export function quote(text: string): string {
  const shown = text.slice(0, quotedCharsMax);
  if (misleading.test(shown)) return `a text of ${text.length} characters`;
  return text.length > quotedCharsMax ? `${JSON.stringify(shown)}…` : JSON.stringify(text);
}

export function refuse(code: ErrorCode, param: string, sentence: string): never {
  throw new ServiceError(code, sentence, { param });
}

/** Throws unless the integer lies between `min` and `max`. Undefined passes. */
export function checkInteger(value: number | undefined, param: string, min: number, max: number): void {
  if (value === undefined) return;
  if (!Number.isInteger(value)) refuse("invalid_type", param, `'${param}' must be an integer, but is ${value}.`);
  if (value < min) refuse("integer_below_min_value", param, `'${param}' must be at least ${min}, but is ${value}.`);
  if (value > max) refuse("integer_above_max_value", param, `'${param}' must be at most ${max}, but is ${value}.`);
}

/** Throws unless the number lies between `min` and `max`; NaN throws. Undefined passes. */
export function checkNumber(value: number | undefined, param: string, min: number, max: number): void {
  if (value === undefined) return;
  if (Number.isNaN(value)) {
    refuse("invalid_value", param, `'${param}' must be a number from ${min} to ${max}, but is NaN.`);
  }
  if (value < min) refuse("decimal_below_min_value", param, `'${param}' must be at least ${min}, but is ${value}.`);
  if (value > max) refuse("decimal_above_max_value", param, `'${param}' must be at most ${max}, but is ${value}.`);
}

/** Throws for more than `charsMax` UTF-16 code units. Undefined passes. */
export function checkLength(text: string | undefined, param: string, charsMax: number): void {
  if (text === undefined || text.length <= charsMax) return;
  refuse(
    "string_above_max_length",
    param,
    `'${param}' may have at most ${charsMax} characters, but has ${text.length}.`,
  );
}

/** Throws for a list of more than `itemsMax`. */
export function checkCount(count: number, param: string, itemsMax: number): void {
  if (count <= itemsMax) return;
  refuse("array_above_max_length", param, `'${param}' may have at most ${itemsMax} items, but has ${count}.`);
}

/** Throws for an empty list. */
export function checkNotEmpty(count: number, param: string): void {
  if (count === 0) refuse("empty_array", param, `'${param}' must have at least 1 item, but has none.`);
}

/** Throws unless the text is one of `allowed`. Undefined passes. */
export function checkOneOf(text: string | undefined, param: string, allowed: readonly string[]): void {
  if (text === undefined || allowed.includes(text)) return;
  const list = allowed.map((value) => `'${value}'`).join(", ");
  refuse("invalid_value", param, `'${param}' must be one of ${list}, but is ${quote(text)}.`);
}

/** Throws for a missing text, which the wire sends as empty. */
export function checkPresent(text: string | undefined, param: string): void {
  if (text === undefined || text === "") {
    refuse("missing_required_parameter", param, `'${param}' is required, but is missing or empty.`);
  }
}

const functionName = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws unless the name of a function or schema is 1 to 64 of a-z, A-Z, 0-9, _ and -. */
export function checkFunctionName(name: string, param: string): void {
  checkPresent(name, param);
  if (functionName.test(name)) return;
  refuse(
    "invalid_value",
    param,
    `'${param}' must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, but is ${quote(name)}.`,
  );
}
