import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { ServiceError } from "./service-error.js";

/** What is advised where the thrower knew no better. */
const retryAfterDefaultMs = 1_000;
/** SDKs ignore longer waits and would come back too early. */
const retryAfterMaxMs = 60_000;

export interface RetryAdvice {
  /** Wait after which the same request can succeed; null: none is advised. 1 to 60,000. */
  readonly waitMs: number | null;
  /** Null: the status says enough. */
  readonly shouldRetry: boolean | null;
}

/** Whether and when to send the same request again (RETRY-1, RETRY-2): for 429 and 503 only, and never later than in a minute. */
export function retryAdvice({ code, retryAfterMs, shouldRetry }: ServiceError): RetryAdvice {
  const { http, retryable } = errorRow(code);
  const wanted = retryAfterMs ?? retryAfterDefaultMs;
  // Some refusals may be retried although their code in general may not.
  const isWelcome = shouldRetry ?? retryable;
  if (!isWelcome || (http !== 429 && http !== 503)) return { waitMs: null, shouldRetry };
  if (wanted > retryAfterMaxMs) return { waitMs: null, shouldRetry: false };
  return { waitMs: Math.max(1, Math.ceil(wanted)), shouldRetry };
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
