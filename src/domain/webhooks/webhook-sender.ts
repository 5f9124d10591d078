import type { AttemptResult } from "./delivery.js";

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
