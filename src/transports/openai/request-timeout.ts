import { headers } from "../../contract/headers.js";
import { ServiceError } from "../../domain/call/service-error.js";

const seconds = /^\d{1,9}(?:\.\d{1,9})?$/;

/**
 * The client's own deadline from `x-request-timeout`, in seconds: a length in milliseconds, Infinity when the client
 * set none, or the error to answer with once the caller is known.
 */
export function readRequestTimeout(header: string | undefined): number | ServiceError {
  if (header === undefined) return Number.POSITIVE_INFINITY;
  const timeoutMs = seconds.test(header) ? Number(header) * 1000 : 0;
  if (timeoutMs > 0) return timeoutMs;
  return new ServiceError(
    "invalid_value",
    `Invalid header '${headers.requestTimeout}': expected a number of seconds above 0, such as 2.5.`,
    { param: headers.requestTimeout },
  );
}
