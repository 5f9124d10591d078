import type { StopSignal } from "../../lib/lazy-abort.js";
import { errorOfEnd } from "./call-context.js";
import type { Logger } from "./ports.js";
import { ServiceError, toServiceError } from "./service-error.js";

/**
 * What the client of a door is told of anything that was thrown while its call was served: a ServiceError as it is, the
 * call's own end when it had one, and one fixed text for the rest, whose cause goes to the log.
 */
export function errorOfThrown(
  thrown: unknown,
  call: { readonly signal: StopSignal; readonly log: Logger; readonly requestId: string },
): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (call.signal.aborted) return errorOfEnd(call.signal.reason);
  call.log.error({ request_id: call.requestId, err: thrown }, "request failed");
  return toServiceError(thrown);
}
