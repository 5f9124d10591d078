import { sha1Hex } from "../../lib/digest.js";
import type { EventType } from "../events/event.js";

/** State of a delivery (WH-29). `delivery_attempted`: an attempt is in progress. The last two are final. */
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
  /** Null with any status. */
  readonly error: AttemptError | null;
  /** Address of the connection; null without one. */
  readonly ip: string | null;
  /** First 2 KiB of the response body as text; null without a response. For administrators only (WH-43). */
  readonly response: string | null;
  /** The header `Retry-After`, at most 64 characters; recorded and not obeyed (WH-28). */
  readonly retryAfter: string | null;
}

/** A stored attempt. */
export interface Attempt extends AttemptResult {
  /** 1 for the first of the delivery. */
  readonly number: number;
  readonly trigger: "schedule" | "manual";
  /** Requester: `session:<id>` or `admin_token`; empty for the schedule. */
  readonly by: string;
  /** Due time of the next attempt; null if none. */
  readonly nextAttemptAtMs: number | null;
}

/**
 * Id of a delivery: `dlv_` and 32 hex digits of SHA-1 over `<event id>/<endpoint id>`, a stored format of every driver.
 * SHA-1, because Redis scripts can compute it; it protects nothing.
 */
export function deliveryId(eventId: string, endpointId: string): string {
  return `dlv_${sha1Hex(`${eventId}/${endpointId}`).slice(0, 32)}`;
}
