import type { Operation } from "../../contract/operations.js";
import type { LazyAbort, StopSignal } from "../../lib/lazy-abort.js";
import type { Logger } from "./ports.js";
import type { Principal } from "./principal.js";
import { ServiceError, toServiceError } from "./service-error.js";

/** Why a request ended. Exactly one of them is settled per admitted request. */
export type EndReason =
  | "completed"
  | "failed"
  | "client_left"
  | "deadline"
  | "stalled"
  | "key_revoked"
  | "shutting_down";

/**
 * The reason of every `ctx.signal`. An Error, because `fetch` and `throwIfAborted` throw the reason itself, and a bare
 * string would reach a caller as an unknown throw.
 */
export class Ended extends Error {
  override readonly name = "Ended";
  readonly why: EndReason;
  constructor(why: EndReason) {
    super(`the request ended: ${why}`);
    this.why = why;
  }
}

/** Two timers on one deadline, the client's and ours, fire within milliseconds: whoever is seen first, it was the deadline. */
const deadlineSlackMs = 25;

/** What a door aborts with when the peer is gone before the answer was handed over. */
export function leaving(deadlineAtMs: number, nowMs: number): Ended {
  return new Ended(nowMs >= deadlineAtMs - deadlineSlackMs ? "deadline" : "client_left");
}

/** Why an aborted signal ended its request. */
export function endReasonOf(signal: StopSignal): EndReason {
  return signal.reason instanceof Ended ? signal.reason.why : "failed";
}

/** What the caller is told when its request was ended from outside, in case it still listens. */
export function errorOfEnd(reason: unknown): ServiceError {
  const why = reason instanceof Ended ? reason.why : "failed";
  switch (why) {
    case "client_left":
      return new ServiceError("client_closed_request", "The client closed the request.");
    case "deadline":
      return new ServiceError("upstream_timeout", "The deadline passed before the answer was complete.");
    case "stalled":
      return new ServiceError("client_closed_request", "The client did not read its answer for too long.");
    case "key_revoked":
      return new ServiceError("invalid_api_key", "The API key was revoked while the request ran.");
    case "shutting_down":
      return new ServiceError("server_shutting_down", "The service is stopping. Send the request again.", {
        retryAfterMs: 1000,
      });
    default:
      return new ServiceError("internal_error", "The request ended without an answer.", { cause: reason });
  }
}

/** What a door knows of a call when it has seen the headers only. Made by the door, one per call. */
export interface Caller {
  /** The `authorization` header as it came; undefined when there was none. */
  readonly authorization: string | undefined;
  /** The client's own deadline on our clock; Infinity when it set none. */
  readonly deadlineAtMs: number;
  /** Aborted by the door when the peer leaves, by the core for every other reason: the first abort wins. */
  readonly abort: LazyAbort;
  readonly transport: "openai" | "connect" | "grpc_web" | "grpc";
  /** Peer address without port. */
  readonly address: string;
  /** Given by doors that sessions come through; the others know no cookies. */
  readonly browser?: Browser | undefined;
  /** The id that the door already gave the call, so that refusals carry it too; the core makes one otherwise. */
  readonly requestId?: string | undefined;
  /** The client's own id of the request, for the log (HDR-5). */
  readonly clientRequestId?: string | undefined;
  /** How often the client's SDK has tried before, for the log (RETRY-5). */
  readonly retryCount?: string | undefined;
  /** The header of W3C Trace Context as it came, for the log and for traces. */
  readonly traceparent?: string | undefined;
}

/** One per call, made by `core.open`, passed explicitly and never global. */
export interface CallContext {
  /** `req_` and 32 hex digits; sent as `x-request-id` on every wire. */
  readonly requestId: string;
  readonly principal: Principal;
  /** Peer address without port. */
  readonly address: string;
  /** The browser that calls; null for every other client. */
  readonly browser: Browser | null;
  readonly operation: Operation;
  /**
   * Aborted with an Ended when the request must end. Never a library's signal: those abort on success, too. Made when it
   * is asked for: who only needs to know uses the caller's `abort`.
   */
  readonly signal: AbortSignal;
  /** The earlier of the client's deadline and limits.deadline. */
  readonly deadlineAtMs: number;
  readonly receivedAtMs: number;
  readonly log: Logger;
  /**
   * The door answers with an error, be it the operation's or its own, e.g. for the JSON: noted for the log and the
   * metrics, and charged like a refusal of the core's own validation where the operation runs a model. A call that was
   * ended from outside keeps the reason of its end. Without effect once the core has noted how the call went.
   */
  refused(error: ServiceError): void;
  /** It only watches and would never end by itself: a stop of the service ends it at once. */
  watching(): void;
  /** The door calls it at the end of every call, also when no operation ran: frees the gate and the deadline's timer. */
  close(): void;
}

/**
 * What a browser sends with every request by itself, and what it is to keep. Because it comes by itself, it proves
 * nothing without the page that made the request: see `isSameOrigin` (KEY-22).
 */
export interface Browser {
  /** Value of the session cookie. */
  readonly sessionToken: string | undefined;
  /** Whether `Origin` names the very server that was called; undefined when the request has no such header. */
  readonly isSameOrigin: boolean | undefined;
  /** How it calls itself, at most 256 characters; empty when it does not. */
  readonly userAgent: string;
  /** Keeps the token of a session for `forMs`, or with null forgets the one it has. Before the answer is written. */
  keepSession(token: string | null, forMs: number): void;
}

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
