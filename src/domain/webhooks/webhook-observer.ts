import type { AttemptError, DeliveryState } from "./delivery.js";

/** What became of an attempt. */
export type AttemptEffect =
  | Extract<DeliveryState, "delivered" | "awaiting_retry" | "permanently_failed">
  /** Another worker had taken the delivery over meanwhile: this attempt counts for nothing (WH-33). */
  | "lease_lost"
  /** The store did not take note of it as long as the lease lasted: the delivery repeats. */
  | "unrecorded";

/** First digit of a status; only the second of these delivers. */
export type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx";

/** How an attempt went. It names neither the receiver nor the event. */
export interface AttemptEnd {
  readonly effect: AttemptEffect;
  /** What the receiver answered, or why there was no answer. */
  readonly answer: StatusClass | AttemptError;
  readonly durationMs: number;
  /** From the instant at which it was due to its begin; 0 or more. */
  readonly latenessMs: number;
}

/** Told of what is counted and measured of deliveries (WH-51). Its methods take a few microseconds and never throw. */
export interface WebhookObserver {
  /** Once per attempt, after the store was told of it. */
  attemptEnded(end: AttemptEnd): void;
  /** How many endpoints are failing now, of those that this process sends to (WH-38). */
  endpointsFailing(count: number): void;
}
