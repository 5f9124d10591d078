import type { AttemptResult } from "./delivery.js";

export interface WebhookRequest {
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** For everything from the look-up of the name to the last header of the answer (WH-20). */
  readonly budgetMs: number;
}

/** What one POST came to; whoever sent it knows when it began. */
export type SendResult = Omit<AttemptResult, "startedAtMs">;

/** The way out to receivers: it connects to open addresses only, follows no redirect and reads little. */
export interface WebhookSender {
  /** One POST. Never rejects. */
  send(request: WebhookRequest): Promise<SendResult>;
  /**
   * Why nothing can be delivered to this URL, as a sentence for whoever registers it; null when it may be tried. Waits
   * at most 2 s for the name; one that does not resolve by then is accepted.
   */
  refusalOf(url: string): Promise<string | null>;
  /** Ends idle connections and the attempts that are under way, which fail as `reset`. */
  close(): void;
}
