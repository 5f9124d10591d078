import type { AttemptError, AttemptResult, DeliveryState } from "./delivery.js";

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

/** Result of one POST; the caller adds its start. */
export type SendResult = Omit<AttemptResult, "startedAtMs">;

/** Result of an attempt that was skipped because the endpoint's secret cannot be decrypted. */
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

/**
 * Port of the HTTP client for receivers: it connects to public addresses only, follows no redirect and reads a bounded
 * response.
 */
export interface WebhookSender {
  /** One POST. Never rejects. */
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

/** Class of a status; only `2xx` delivers. */
export type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx";

/** Outcome of an attempt, without receiver and event. */
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
