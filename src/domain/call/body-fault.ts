import type { ServiceLimits } from "../../contract/limits.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import type { BodyFault } from "../../lib/request-body.js";
import { errorOfEnd } from "./call-context.js";
import { ServiceError } from "./service-error.js";

/** What the caller is told of a body that was not read to its end, on every HTTP door. */
export function errorOfBodyFault(
  fault: BodyFault,
  limits: Pick<ServiceLimits, "bodyBytesMax" | "bodyRateMin">,
  signal: StopSignal,
): ServiceError {
  switch (fault) {
    case "too_large":
      return new ServiceError("request_too_large", `The body is larger than ${limits.bodyBytesMax} bytes.`);
    case "too_slow":
      return new ServiceError(
        "request_timeout",
        `The body arrived slower than ${limits.bodyRateMin} bytes per second.`,
      );
    case "no_room":
      return new ServiceError(
        "server_is_overloaded",
        "Too many request bodies are being received. Try again shortly.",
        { retryAfterMs: 1_000 },
      );
    case "left":
      return new ServiceError("client_closed_request", "The client left.");
    case "aborted":
      return errorOfEnd(signal.reason);
  }
}
