import { sha1Hex } from "../../lib/crypto.js";
import type { EventType } from "../events/events.js";

/**
 * State of a delivery (WH-29). `delivery_attempted`: an attempt is in progress. `delivered` and `permanently_failed` are
 * final.
 */
export const deliveryStates = [
  "pending",
  "delivery_attempted",
  "awaiting_retry",
  "delivered",
  "permanently_failed",
] as const;

export type DeliveryState = (typeof deliveryStates)[number];

/** Reason of a permanent failure. */
export type DeliveryFailure =
  /** All retries of the schedule were used. */
  | "retries_used_up"
  /** A manual retry failed, which is final (WH-46). */
  | "manual_retry_failed"
  /** The endpoint was disabled before it was delivered (WH-30). */
  | "endpoint_disabled"
  | "endpoint_deleted"
  /** The account had too many unfinished deliveries (WH-52); it was never attempted. */
  | "overflow";

/** The delivery of one event to one endpoint. */
export interface Delivery {
  /**
   * `dlv_` and 32 hex digits, derived from event and endpoint, so that an event creates one delivery per endpoint
   * (WH-11).
   */
  readonly id: string;
  readonly account: string;
  readonly eventId: string;
  readonly eventType: EventType;
  readonly endpointId: string;
  readonly state: DeliveryState;
  /** Null unless permanently failed. */
  readonly reason: DeliveryFailure | null;
  readonly createdAtMs: number;
  /** Due time; null when finished or in progress. */
  readonly nextAttemptAtMs: number | null;
  /** Number of all attempts. */
  readonly attemptsMade: number;
  /** The last 20, oldest first. */
  readonly attempts: readonly Attempt[];
  /** The payload was deleted; it cannot be sent any more (WH-50). */
  readonly isPurged: boolean;
  /** Id of the last replay that queued it; null if none. */
  readonly replayId: string | null;
}

export const attemptsKept = 20;

/** Reason for an attempt without a response. Its text never contains a private address (WH-42). */
export type AttemptError =
  /** The host name has no address, or the resolver did not answer. */
  | "dns"
  /** The connection was refused or cannot be routed. */
  | "connect"
  | "tls"
  /** The budget of the attempt was used up. */
  | "timeout"
  /** The connection ended before a response. */
  | "reset"
  /** The host resolves to an address that webhooks may not reach. */
  | "blocked_address"
  /** The response is not HTTP, or its head is too large. */
  | "bad_response"
  /** The secret cannot be decrypted: rotate it. Nothing was sent. */
  | "secret_unreadable";

/** Result of one attempt. */
export interface AttemptResult {
  /** Store time. */
  readonly startedAtMs: number;
  readonly latencyMs: number;
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** Null if there is a status. */
  readonly error: AttemptError | null;
  /** Address of the connection; null without one. */
  readonly ip: string | null;
  /** First 2 KiB of the response body as text; null without a response. For administrators only (WH-43). */
  readonly response: string | null;
  /** The header `Retry-After`, at most 64 characters; recorded and not obeyed (WH-28). */
  readonly retryAfter: string | null;
  /** Absent when nothing was signed, and in attempts of an earlier version. */
  readonly signatures?: AttemptSignatures;
}

/** Values of the two signature headers of an attempt (WH-15, WH-18). They do not reveal the secret. */
export type AttemptSignatures = readonly [service: string, standard: string];

/** A stored attempt. */
export interface Attempt extends AttemptResult {
  /** Number of the attempt, 1 for the first of the delivery. */
  readonly number: number;
  readonly trigger: "schedule" | "manual";
  /** Requester: `session:<id>` or `admin_token`; empty for the schedule. */
  readonly by: string;
  /** Due time of the next attempt; null if none. */
  readonly nextAttemptAtMs: number | null;
}

/**
 * Id of a delivery: `dlv_` and 32 hex digits of SHA-1 over `<event id>/<endpoint id>`, a stored format of every driver.
 * SHA-1 is used because Redis scripts can compute it; the id needs no protection against forgery.
 */
export function deliveryId(eventId: string, endpointId: string): string {
  return `dlv_${sha1Hex(`${eventId}/${endpointId}`).slice(0, 32)}`;
}

export interface WebhookRequest {
  /** Account of the endpoint: name look-ups are shared fairly by account. */
  readonly account: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Time budget from the name look-up to the last response header (WH-20). */
  readonly budgetMs: number;
}

/** Result of one POST; the caller adds its start and signatures. */
export type SendResult = Omit<AttemptResult, "startedAtMs" | "signatures">;

/** Result of an attempt that was skipped because the endpoint's secret cannot be decrypted. */
export const secretUnreadable: SendResult = Object.freeze({
  latencyMs: 0,
  status: null,
  error: "secret_unreadable",
  ip: null,
  response: null,
  retryAfter: null,
});

/** Whether an attempt counts as delivered: the status of its answer is 200 to 299 (WH-19). */
export function isDelivered({ status }: Pick<AttemptResult, "status">): boolean {
  return status !== null && status >= 200 && status <= 299;
}

/**
 * Port of the HTTP client for receivers: it connects to public addresses only, follows no redirect and reads a bounded
 * response.
 */
export interface WebhookSender {
  /** Sends one POST request. Never rejects. */
  send(request: WebhookRequest): Promise<SendResult>;
  /**
   * Why this URL cannot be delivered to, as a sentence; null if it can be tried. Waits at most 2 s for the name; a name
   * that does not resolve by then is accepted.
   */
  refusalOf(url: string, account: string): Promise<string | null>;
  /** Closes idle connections and aborts attempts in progress, which fail as `reset`. */
  close(): void;
}

/** Effect of an attempt. */
export type AttemptEffect =
  | Extract<DeliveryState, "delivered" | "awaiting_retry" | "permanently_failed">
  /** Another worker took the delivery over; the attempt does not count (WH-33). */
  | "lease_lost"
  /** The store did not record it within the lease; the delivery repeats. */
  | "unrecorded";

/** Class of a status; only `2xx` counts as delivered. */
export type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx";

/** Outcome of an attempt for metrics, without receiver and event. */
export interface AttemptEnd {
  readonly effect: AttemptEffect;
  /** Status class of the response, or the error. */
  readonly answer: StatusClass | AttemptError;
  readonly durationMs: number;
  /** Delay between the due time and the start; 0 or more. */
  readonly latenessMs: number;
}

/** Receives metrics of deliveries (WH-51). Its methods take a few microseconds and never throw. */
export interface WebhookObserver {
  /** Called once per attempt, after it was recorded. */
  attemptEnded(end: AttemptEnd): void;
  /** Number of failing endpoints that this process sends to (WH-38). */
  endpointsFailing(count: number): void;
}
