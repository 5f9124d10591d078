import { type ErrorCode, errorRow, type OpenAiErrorType } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { LimitSnapshot } from "./rate-limits.js";

export interface ServiceErrorOptions {
  /** The field at fault, in OpenAI's notation: `messages[0].role`. */
  readonly param?: string | undefined;
  /** Wait after which the same request can succeed. Sent as Retry-After, retry-after-ms and RetryInfo. */
  readonly retryAfterMs?: number | undefined;
  /** `tokens` for a token limit; otherwise the row's type. */
  readonly type?: OpenAiErrorType | undefined;
  /** Overrides the table: false when retrying this request is useless. */
  readonly shouldRetry?: boolean | undefined;
  /** The caller's limits when one of them rejected the request. */
  readonly limits?: LimitSnapshot | undefined;
  /** The limits were decided without the shared store. */
  readonly degraded?: boolean | undefined;
  /** For the log, never for the caller. */
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
    {
      cause: thrown,
    },
  );
}

/** Asserts that a state cannot occur. The request fails as `internal_error`; the process goes on. */
export function invariant(condition: unknown, why: string): asserts condition {
  if (!condition) throw new Error(`invariant violated: ${why}`);
}

/** For the default branch of a switch over a closed union. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value: ${String(value)}`);
}

/** Default wait. */
const retryAfterDefaultMs = 1_000;
/** SDKs sleep through a longer wait or ignore it and retry too early; they are advised not to retry. */
const sdkWaitMaxMs = 60_000;

export interface RetryAdvice {
  /** Wait after which the same request can succeed, at least 1; null: no wait would help. */
  readonly waitMs: number | null;
  /** Null leaves the decision to the status. */
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
