import type { BodyFault } from "../../contract/body-fault.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { type CallContext, errorOfEnd } from "./call-context.js";
import { ServiceError } from "./service-error.js";

/** The bounds that a request body is read within. */
export interface BodyBounds {
  readonly bytesMax: number;
  readonly bytesPerSecondMin: number;
}

/** Error for a request body that was not read to its end, the same on every protocol. */
export function errorOfBodyFault(
  fault: BodyFault,
  { bytesMax, bytesPerSecondMin }: BodyBounds,
  signal: AbortFlag,
): ServiceError {
  switch (fault) {
    case "too_large":
      return new ServiceError("request_too_large", `The body is larger than ${bytesMax} bytes.`);
    case "too_slow":
      return new ServiceError("request_timeout", `The body arrived slower than ${bytesPerSecondMin} bytes per second.`);
    case "no_room":
      return overloaded("Too many request bodies are being received. Try again shortly.");
    case "connection_full":
      return overloaded(
        "Too many bytes of request bodies arrive on this connection at the same time. Send fewer at once.",
      );
    case "caller_full":
      return overloaded(
        "Too many bytes of request bodies arrive from this caller at the same time. Send fewer at once.",
      );
    case "left":
      return new ServiceError("client_closed_request", "The client left.");
    case "aborted":
      return errorOfEnd(signal.reason);
  }
}

function overloaded(message: string): ServiceError {
  return new ServiceError("server_is_overloaded", message, { retryAfterMs: 1_000 });
}

/** Whose share of the budget for bodies a call uses: the account's, the administrator's, or that of an address. */
export function bodyOwnerOf({ principal, address }: Pick<CallContext, "principal" | "address">): string {
  if (principal.kind === "nobody") return `address ${address}`;
  return principal.kind === "api_key" ? `account ${principal.account}` : principal.kind;
}
