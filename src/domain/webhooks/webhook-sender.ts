import type { AttemptError, AttemptResult, DeliveryState } from "./delivery.js";

export interface WebhookRequest {
  /** Whose endpoint it is: name look-ups are shared out by account. */
  readonly account: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For everything from the look-up of the name to the last header of the answer (WH-20). */
  readonly budgetMs: number;
}

/** What one POST came to; whoever sent it knows when it began. */
export type SendResult = Omit<AttemptResult, "startedAtMs">;

/** Of an attempt that was not made, because its endpoint's secret cannot be decrypted. */
export const secretUnreadable: SendResult = Object.freeze({
  latencyMs: 0,
  status: null,
  error: "secret_unreadable",
  ip: null,
  response: null,
  retryAfter: null,
});

/** Whether an answer delivers: its status is 200 to 299 (WH-19). */
export function isDelivered({ status }: Pick<AttemptResult, "status">): boolean {
  return status !== null && status >= 200 && status <= 299;
}

/** The way out to receivers: it connects to open addresses only, follows no redirect and reads little. */
export interface WebhookSender {
  /** One POST. Never rejects. */
  send(request: WebhookRequest): Promise<SendResult>;
  /**
   * Why nothing can be delivered to this URL, as a sentence for whoever registers it; null when it may be tried. Waits
   * at most 2 s for the name; one that does not resolve by then is accepted.
   */
  refusalOf(url: string, account: string): Promise<string | null>;
  /** Ends idle connections and the attempts that are under way, which fail as `reset`. */
  close(): void;
}

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
