import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { ServiceError } from "../../domain/service-error.js";

/** Longest wait that is advertised: clients disagree on what to do with more, from sleeping it out to ignoring it. */
const retryAfterMaxMs = 60_000;
/** Said where a retry makes sense and nobody knows a better moment. */
const retryAfterDefaultMs = 1_000;

export interface ErrorResponse {
  readonly status: number;
  /** Only what belongs to the error; see answer-headers.ts for the rest. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An error as status, headers and OpenAI's envelope. */
export function errorResponse(error: ServiceError): ErrorResponse {
  return { status: errorRow(error.code).http, headers: retryHeaders(error), body: JSON.stringify(errorToJson(error)) };
}

/** The envelope; `type`, `param` and `code` are always there (DEC-2). */
export function errorToJson(error: ServiceError): object {
  return { error: { message: error.message, type: error.type, param: error.param, code: error.code } };
}

/** RETRY-1 to RETRY-3: a wait of 1 to 60 seconds, or the advice not to retry, never both. */
function retryHeaders(error: ServiceError): Record<string, string> {
  const { http, retryable } = errorRow(error.code);
  const waits = error.retryAfterMs !== null || (retryable && (http === 429 || http === 503));
  const waitMs = error.retryAfterMs ?? retryAfterDefaultMs;
  if (error.shouldRetry === false || (waits && waitMs > retryAfterMaxMs)) return { [headers.shouldRetry]: "false" };
  return {
    ...(error.shouldRetry === true && { [headers.shouldRetry]: "true" }),
    ...(waits && {
      [headers.retryAfter]: String(Math.max(1, Math.ceil(waitMs / 1000))),
      [headers.retryAfterMs]: String(Math.max(1, Math.ceil(waitMs))),
    }),
  };
}
