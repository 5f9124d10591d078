import { sha1Hex } from "../../lib/digest.js";
import type { EventType } from "../events/event.js";

/** Where a delivery stands (WH-29). `delivery_attempted`: an attempt is under way. The last two are ends. */
export const deliveryStates = [
  "pending",
  "delivery_attempted",
  "awaiting_retry",
  "delivered",
  "permanently_failed",
] as const;

export type DeliveryState = (typeof deliveryStates)[number];

/** Why a delivery has failed for good. */
export type DeliveryFailure =
  /** All retries of the schedule were used. */
  | "retries_used_up"
  /** A retry by hand failed, which no other follows (WH-46). */
  | "manual_retry_failed"
  /** The endpoint was disabled before it was delivered (WH-30). */
  | "endpoint_disabled"
  | "endpoint_deleted"
  /** The account had as many open deliveries as may wait (WH-52): it was never tried. */
  | "overflow";

/** One event on its way to one endpoint. */
export interface Delivery {
  /** `dlv_` and 32 hex digits, made of event and endpoint: the same event creates no second one (WH-11). */
  readonly id: string;
  readonly account: string;
  readonly eventId: string;
  readonly eventType: EventType;
  readonly endpointId: string;
  readonly state: DeliveryState;
  /** Null unless it has failed for good. */
  readonly reason: DeliveryFailure | null;
  readonly createdAtMs: number;
  /** When it is due; null when it is at an end or under way. */
  readonly nextAttemptAtMs: number | null;
  /** All that were ever made. */
  readonly attemptsMade: number;
  /** The newest 20, the oldest of them first. */
  readonly attempts: readonly Attempt[];
  /** The payload is gone (WH-50): it cannot be sent any more. */
  readonly isPurged: boolean;
  /** The last replay that queued it; null: none did. */
  readonly replayId: string | null;
}

export const attemptsKept = 20;

/** Why there was no answer to an attempt. No text of it shows an address that is not public (WH-42). */
export type AttemptError =
  /** The host name has no address, or the resolver did not answer. */
  | "dns"
  /** The connection was refused or cannot be routed. */
  | "connect"
  | "tls"
  /** The budget of the attempt was used up. */
  | "timeout"
  /** The connection ended before there was an answer. */
  | "reset"
  /** The host has an address that is not open to webhooks. */
  | "blocked_address"
  /** The answer is not HTTP, or its head is too large. */
  | "bad_response"
  /** The secret cannot be decrypted: rotate it. Nothing was sent. */
  | "secret_unreadable";

/** What came of one attempt. */
export interface AttemptResult {
  /** Store time. */
  readonly startedAtMs: number;
  readonly latencyMs: number;
  /** HTTP status; null: there was none. */
  readonly status: number | null;
  /** Null when there was a status, whichever. */
  readonly error: AttemptError | null;
  /** The address that was connected to; null: none was. */
  readonly ip: string | null;
  /** The first 2 KiB of the answer's body as text; null: there was no answer. For administrators only (WH-43). */
  readonly response: string | null;
  /** The header `Retry-After`, at most 64 characters of it. It is noted and not obeyed (WH-28). */
  readonly retryAfter: string | null;
}

/** An attempt as it is kept. */
export interface Attempt extends AttemptResult {
  /** 1 for the first of the delivery. */
  readonly number: number;
  readonly trigger: "schedule" | "manual";
  /** Who asked for it: `session:<id>` or `admin_token`; empty for the schedule. */
  readonly by: string;
  /** When the next one was due after this; null: none was. */
  readonly nextAttemptAtMs: number | null;
}

/**
 * Id of the delivery of an event to an endpoint: `dlv_` and 32 hex digits of SHA-1 over `<event id>/<endpoint id>`. Kept
 * like this by every driver; SHA-1 because it is the digest that a Redis script can compute. No secret hangs on it.
 */
export function deliveryId(eventId: string, endpointId: string): string {
  return `dlv_${sha1Hex(`${eventId}/${endpointId}`).slice(0, 32)}`;
}
