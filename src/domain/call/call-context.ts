import type { Operation } from "../../contract/operations.js";
import type { AbortFlag, AbortSource } from "../../lib/abort-source.js";
import type { ArrivingItems, StreamBuffer } from "../../lib/collections.js";
import type { Logger } from "./ports.js";
import type { Principal } from "./principal.js";
import type { LimitSnapshot } from "./rate-limits.js";
import { ServiceError, toServiceError } from "./service-error.js";

/** Why a request ended. An admitted request is settled with exactly one of these. */
export type EndReason =
  | "completed"
  | "failed"
  | "client_left"
  | "deadline"
  | "stalled"
  | "key_revoked"
  | "shutting_down";

/** Abort reason of every `ctx.signal`. It is an Error because `fetch` and `throwIfAborted` throw the reason itself. */
export class Ended extends Error {
  override readonly name = "Ended";
  readonly why: EndReason;
  constructor(why: EndReason) {
    super(`the request ended: ${why}`);
    this.why = why;
  }
}

/** A disconnect this close to the deadline counts as the deadline: the client's timer and ours fire almost together. */
const deadlineSlackMs = 25;

/** Abort reason for a client that disconnected before its answer was written. */
export function leaving(deadlineAtMs: number, nowMs: number): Ended {
  return new Ended(nowMs >= deadlineAtMs - deadlineSlackMs ? "deadline" : "client_left");
}

/** Why an aborted signal ended its request. */
export function endReasonOf(signal: AbortFlag): EndReason {
  return signal.reason instanceof Ended ? signal.reason.why : "failed";
}

/** Error for a request that was aborted, in case the client still waits for an answer. */
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
      return new ServiceError(
        "invalid_api_key",
        "The API key or session ended while the request ran: it was revoked or replaced, has expired, or lost the model.",
      );
    case "shutting_down": {
      const sentence = "The service is stopping. Send the request again.";
      return new ServiceError("server_shutting_down", sentence, { retryAfterMs: 1_000 });
    }
    default:
      return new ServiceError("internal_error", "The request ended without an answer.", { cause: reason });
  }
}

/** Data of a call that the transport takes from its headers and connection. One object per call. */
export interface Caller {
  /** The unmodified `authorization` header; undefined if absent. */
  readonly authorization: string | undefined;
  /** The client's own deadline on our clock; Infinity when it set none. */
  readonly deadlineAtMs: number;
  /** Aborted by the transport at a disconnect and by the core for every other reason; the first abort counts. */
  readonly abort: AbortSource;
  readonly transport: "openai" | "anthropic" | "connect" | "grpc_web" | "grpc";
  /** Peer address without port. */
  readonly address: string;
  /** Set by transports that accept session cookies. */
  readonly browser?: Browser | undefined;
  /** Request id that the transport has assigned, so that its own errors carry it; the core creates one if absent. */
  readonly requestId?: string | undefined;
  /** The client's own id of the request, for the log (HDR-5). */
  readonly clientRequestId?: string | undefined;
  /** Whether a trusted gateway forwarded the call. The gateway itself rejects callers that it knows to be over a limit. */
  readonly isForwarded?: boolean | undefined;
  /** Whether the client accepts no answer of a fallback model. */
  readonly refusesFallbacks?: boolean;
  /** Number of earlier attempts by the client's SDK, for the log (RETRY-5). */
  readonly retryCount?: string | undefined;
  /** The unmodified header of W3C Trace Context, for the log and for traces. */
  readonly traceparent?: string | undefined;
}

/** Context of one call, created by `core.open` and passed explicitly. */
export interface CallContext {
  /** `req_` and 32 hex digits; sent as `x-request-id` in every protocol. */
  readonly requestId: string;
  readonly principal: Principal;
  /** Peer address without port. */
  readonly address: string;
  /** Null unless the client is a browser. */
  readonly browser: Browser | null;
  readonly operation: Operation;
  /**
   * Aborted with an `Ended` when the request must end. Created lazily; code that only needs to know whether the call ended
   * uses the caller's `abort`. The signal of an HTTP or RPC library is not passed on, because such signals also abort on
   * success.
   */
  readonly signal: AbortSignal;
  /** The earlier of the client's deadline and limits.deadline. */
  readonly deadlineAtMs: number;
  readonly receivedAtMs: number;
  readonly log: Logger;
  /** Bounds what the call holds for a reader that is slower than its engine. Created lazily; closed with the call. */
  readonly buffer: StreamBuffer;
  /**
   * Records for the log and the metrics that the transport answers with an error, its own or the operation's. A call that
   * was aborted keeps its abort reason. An invalid request is charged as one request if the operation runs a model. No
   * effect once an outcome is recorded.
   */
  refused(error: ServiceError): void;
  /** Marks a stream that never ends by itself: a shutdown ends it immediately. */
  watching(): void;
  /** Called by the transport at the end of every call, also when no operation ran. Cancels the deadline's timer. */
  close(): void;
}

/**
 * Cookies and headers that a browser attaches to every request by itself, and functions that set its cookies. They
 * authenticate a caller only after a same-origin check (KEY-22).
 */
export interface Browser {
  /** Value of the session cookie. */
  readonly sessionToken: string | undefined;
  /** Whether `Origin` equals the server's own origin; undefined without that header. */
  readonly isSameOrigin: boolean | undefined;
  /** `User-Agent`, at most 256 characters; empty if absent. */
  readonly userAgent: string;
  /** Value of the cookie that the last sign-in of this browser has set. It grants no access (E-13). */
  readonly knownToken?: string | undefined;
  /** Sets the session cookie for `forMs`, or clears it if `token` is null; call it before the answer is written. */
  keepSession(token: string | null, forMs: number): void;
  /** Sets the cookie whose value is `knownToken` at the next sign-in. */
  keepKnown(token: string, forMs: number): void;
}

/**
 * Converts anything thrown during a call: a ServiceError stays, an aborted call gets the error of its abort reason,
 * everything else becomes `internal_error` and its cause goes to the log.
 */
export function errorOfThrown(
  thrown: unknown,
  call: { readonly signal: AbortFlag; readonly log: Logger; readonly requestId: string },
): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (call.signal.aborted) return errorOfEnd(call.signal.reason);
  call.log.error({ request_id: call.requestId, err: thrown }, "request failed");
  return toServiceError(thrown);
}

/** Which deployment answers a request. */
export interface AnswerRoute {
  /** Id of the deployment. */
  readonly deployment: string;
  /** Number of tries in deployments, including the one that answered. */
  readonly attempts: number;
  /** The model that answers instead of the requested one; null: the requested model answers. */
  readonly fallbackModel: string | null;
}

/** Metadata of an answer, known when it is committed. Transports send it as headers. */
export interface AnswerHead extends AnswerRoute {
  readonly limits?: LimitSnapshot;
  /** Limits were decided without the shared store. */
  readonly degraded: boolean;
  /** Time spent waiting for a slot. */
  readonly queueMs: number;
}

export interface Answer<M> {
  readonly head: AnswerHead;
  readonly body: M;
}

/**
 * A streamed answer. Its promise resolves when the answer is committed: at the first content, or limits.commitMs after the
 * slot was granted. A failure before that rejects the promise, a later one is thrown by `items`. The last item is yielded
 * after the settlement. `items` can be iterated once; it must be iterated unless the call is aborted.
 */
export interface StreamAnswer<M> {
  /** Id of the answer, as in each item. */
  readonly id: string;
  readonly head: AnswerHead;
  readonly items: ArrivingItems<M>;
  /** The route so far, final after the last item: until the first content another deployment may take over. */
  readonly route: () => AnswerRoute;
  /** Usage of the prompt so far: 0 until the engine has counted it. */
  readonly promptUsage: () => { readonly promptTokens: number; readonly cachedTokens: number };
}

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
        "Too many bytes of request bodies arrive on this connection at the same time. Send fewer in parallel.",
      );
    case "caller_full":
      return overloaded(
        "Too many bytes of request bodies arrive from this caller at the same time. Send fewer in parallel.",
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

/**
 * Key under which a call's use of shared resources is counted: the account, the administrator, or the address of an unknown
 * caller.
 */
export function shareOwnerOf({ principal, address }: Pick<CallContext, "principal" | "address">): string {
  if (principal.kind === "nobody") return `address ${address}`;
  return principal.kind === "api_key" ? `account ${principal.account}` : principal.kind;
}

/**
 * Why a request body was not read to its end. `no_room`: the memory for bodies is in use; `connection_full`, `caller_full`:
 * the connection or the caller already uses its share of it; `left`: the client disconnected; `aborted`: the call was
 * aborted.
 */
export type BodyFault = "too_large" | "too_slow" | "no_room" | "connection_full" | "caller_full" | "left" | "aborted";
