import { errorRow } from "../../contract/errors.js";
import { retryAdvice, retryHeaders, type ServiceError } from "../../domain/call/service-error.js";
import { limitHeaders } from "../../domain/metering/limit-response.js";

export interface ErrorResponse {
  readonly status: number;
  /** Only what belongs to the error; see answer-headers.ts for the rest. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An error as status, headers and OpenAI's envelope. */
export function errorResponse(error: ServiceError): ErrorResponse {
  return {
    status: errorRow(error.code).http,
    headers: { ...retryHeaders(retryAdvice(error)), ...limitHeaders(error) },
    body: JSON.stringify(errorToJson(error)),
  };
}

/** The envelope; `type`, `param` and `code` are always there (DEC-2). */
export function errorToJson(error: ServiceError): object {
  return { error: { message: error.message, type: error.type, param: error.param, code: error.code } };
}
