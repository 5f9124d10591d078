import { type ErrorCode, errorRow, type OpenAiErrorType } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { LimitSnapshot } from "./rate-limits.js";

export interface ServiceErrorOptions {
  /** The field at fault, in OpenAI's notation: `messages[0].role`. */
  readonly param?: string | undefined;
  /** Wait after which the same request can succeed. Sent as Retry-After, retry-after-ms and RetryInfo. */
  readonly retryAfterMs?: number | undefined;
  /** `tokens` for a token limit; otherwise the type of the code's row in the error table. */
  readonly type?: OpenAiErrorType | undefined;
  /** Overrides the error table: false when retrying this request is useless. */
  readonly shouldRetry?: boolean | undefined;
  /** The caller's limits when one of them rejected the request. */
  readonly limits?: LimitSnapshot | undefined;
  /** The limits were decided without the shared store. */
  readonly degraded?: boolean | undefined;
  /** Written to the log, never sent to the caller. */
  readonly cause?: unknown;
}

/**
 * The only error that a caller sees. The message is public: it names the field and both the expected and the given
 * value, and holds no stack, no upstream address and no key. Everything else that is thrown becomes `internal_error`.
 */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly retryAfterMs: number | null;
  readonly type: OpenAiErrorType;
  readonly shouldRetry: boolean | null;
  readonly limits: LimitSnapshot | undefined;
  readonly degraded: boolean;

  constructor(code: ErrorCode, publicMessage: string, options: ServiceErrorOptions = {}) {
    super(publicMessage, options.cause === undefined ? undefined : { cause: options.cause });
    const row = errorRow(code);
    this.code = code;
    this.param = options.param ?? null;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.type = options.type ?? row.type;
    this.shouldRetry = options.shouldRetry ?? row.shouldRetry ?? null;
    this.limits = options.limits;
    this.degraded = options.degraded ?? false;
  }
}

/** Returns ServiceErrors as they are; everything else becomes `internal_error`. */
export function toServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  return new ServiceError(
    "internal_error",
    "The service failed to handle the request. The log has the cause under the request id.",
    { cause: thrown },
  );
}

/**
 * Asserts a condition that must always hold. If it does not, the request fails as `internal_error` and the process
 * continues.
 */
export function invariant(condition: unknown, why: string): asserts condition {
  if (!condition) throw new Error(`invariant violated: ${why}`);
}

/** Wait that is sent for errors without one of their own. */
const retryAfterDefaultMs = 1_000;
/** Longest wait that is sent with the advice to retry. SDKs block for a longer one, or ignore it and retry too early. */
const sdkWaitMaxMs = 60_000;

interface RetryAdvice {
  /** Wait after which the same request can succeed, at least 1; null: no wait would help. */
  readonly waitMs: number | null;
  /** Null: the client decides by the HTTP status. */
  readonly shouldRetry: boolean | null;
}

/** Whether and when to send the same request again: a wait for 429 and 503 only (RETRY-1, RETRY-2). */
export function retryAdvice({ code, retryAfterMs, shouldRetry }: ServiceError): RetryAdvice {
  const { http, retryable } = errorRow(code);
  const wanted = retryAfterMs ?? retryAfterDefaultMs;
  // Single errors may be retryable although their code in general is not.
  const isWelcome = shouldRetry ?? retryable;
  if (!isWelcome || (http !== 429 && http !== 503)) return { waitMs: null, shouldRetry };
  return { waitMs: Math.max(1, Math.ceil(wanted)), shouldRetry: wanted > sdkWaitMaxMs ? false : shouldRetry };
}

/** The advice as headers or trailers. */
export function retryHeaders({ waitMs, shouldRetry }: RetryAdvice): Readonly<Record<string, string>> {
  return {
    ...(waitMs === null
      ? {}
      : { [headers.retryAfterMs]: String(waitMs), [headers.retryAfter]: String(Math.ceil(waitMs / 1_000)) }),
    ...(shouldRetry === null ? {} : { [headers.shouldRetry]: String(shouldRetry) }),
  };
}

/**
 * Checks of single fields of a request. Each throws a ServiceError that names the field, the expected and the given value
 * (ERR-2).
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

export function refuseValue(param: string, sentence: string): never {
  refuse("invalid_value", param, sentence);
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
    refuseValue(param, `'${param}' must be a number from ${min} to ${max}, but is NaN.`);
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
  refuseValue(param, `'${param}' must be one of ${list}, but is ${quote(text)}.`);
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
  refuseValue(param, `'${param}' must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, but is ${quote(name)}.`);
}

/** Page of a list, the same in all services (AIP-158). */
export interface PageRequest {
  /** 0 to 1,000; 0 means 100. */
  readonly pageSize: number;
  /** `nextPageToken` of the page before; empty for the first. */
  readonly pageToken: string;
}

/** The requested page as the store's arguments. */
interface StorePage {
  readonly limit: number;
  /** Cursor of the previous page; null for the first. */
  readonly after: string | null;
}

const pageSizeDefault = 100;
const pageSizeMax = 1_000;

/** Throws ServiceError naming the field at fault. `isCursor` says whether a store can have issued the cursor. */
export function toStorePage({ pageSize, pageToken }: PageRequest, isCursor: (text: string) => boolean): StorePage {
  checkInteger(pageSize, "page_size", 0, pageSizeMax);
  const after = pageToken === "" ? null : Buffer.from(pageToken, "base64url").toString();
  if (after !== null && !isCursor(after)) {
    refuse("invalid_value", "page_token", "'page_token' is not the next_page_token of an earlier page.");
  }
  return { limit: pageSize === 0 ? pageSizeDefault : pageSize, after };
}

/** The token of the next page; empty when there is none. */
export function toPageToken(cursor: string | null): string {
  return cursor === null ? "" : Buffer.from(cursor).toString("base64url");
}
