import type { AttemptError } from "../domain/webhooks/delivery.js";
import { BlockedAddress } from "./checked-lookup.js";

/** How far an attempt has come. */
export type AttemptPhase = "lookup" | "connect" | "handshake" | "answer";

/** The other side ended a connection that was there. */
const resets = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);
/** So did something on the way. */
const losses = new Set(["ETIMEDOUT", "ENETRESET", "EHOSTUNREACH", "ENETUNREACH"]);

/** What is noted of an error that Node reports in a phase. */
export function attemptErrorOf(error: Error, phase: AttemptPhase): AttemptError {
  const code = String((error as NodeJS.ErrnoException).code ?? "");
  switch (phase) {
    case "lookup":
      return error instanceof BlockedAddress ? "blocked_address" : "dns";
    case "connect":
      // A reset right after the connection was made can be seen before it.
      return resets.has(code) ? "reset" : "connect";
    case "handshake":
      return resets.has(code) || losses.has(code) ? "reset" : "tls";
    case "answer":
      if (code.startsWith("HPE_")) return "bad_response";
      return code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_") || code === "EPROTO" ? "tls" : "reset";
  }
}
