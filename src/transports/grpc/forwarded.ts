import { headers } from "../../contract/headers.js";
import type { Operation } from "../../contract/operations.js";
import type { Browser } from "../../domain/call/call-context.js";
import { type ForwardedCall, readForwarded } from "../../domain/call/forwarded-call.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { readSignedText } from "../../lib/crypto.js";

interface GatewayTrust {
  /** Secret that gateways share with their cores; null where client certificates of gateways are required instead. */
  readonly token: string | null;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Logger;
}

/** Reads the fields that a trusted gateway forwards with a call; null for any other client. */
export type ForwardedReader = (
  field: (name: string) => string | undefined,
  path: string,
  operation: Operation,
) => ForwardedCall | null;

/** A wrong signature is logged at most this often. */
const warnEveryMs = 60_000;

/**
 * Reads forwarded fields on a core. Fields with a wrong signature are ignored, because any client can send them: the call
 * is then treated like a call of a client that connects directly.
 */
export function createForwardedReader({ token, clock, log }: GatewayTrust): ForwardedReader {
  let warnedAtMs = Number.NEGATIVE_INFINITY;
  return (field, path, operation) => {
    const signed = field(headers.forwarded);
    if (signed === undefined) return null;
    const text = readSignedText(token, signed, `${path}\n${field("authorization") ?? ""}`);
    const forwarded = text === null ? null : readForwarded(text, operation, clock.now());
    if (forwarded === null && clock.monotonic() - warnedAtMs >= warnEveryMs) {
      warnedAtMs = clock.monotonic();
      const fix = "if a gateway sent them, give it the same core.token, and check the clocks of both machines";
      log.warn({ rpc: path, fix }, "forwarded fields of a call were ignored: they are not signed with core.token");
    }
    return forwarded;
  };
}

/** The browser session of a forwarded call. The gateway has checked its origin, and sets its cookies. */
export function browserOfForwarded({ sessionToken }: ForwardedCall): Browser | undefined {
  if (sessionToken === null) return undefined;
  return { sessionToken, isSameOrigin: true, userAgent: "", keepSession() {}, keepKnown() {} };
}
