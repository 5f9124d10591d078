import { type SecretBox, sha256Hex, UnsealError } from "../../lib/crypto.js";
import type { IdSource } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { type EventDraft, type EventType, requestCompleted, requestFailed } from "../events/event.js";
import { periodAt, thresholdEvent } from "../events/threshold.js";
import { deliveryId, isDelivered, type SendResult, secretUnreadable, type WebhookSender } from "./delivery.js";
import { attemptHeaders } from "./delivery-attempts.js";
import type { EndpointRecord } from "./endpoint-store.js";
import { signingSecrets } from "./endpoint-store.js";

export interface TestAttemptsDeps {
  readonly sender: Pick<WebhookSender, "send">;
  readonly secrets: Pick<SecretBox, "open">;
  readonly ids: IdSource;
  /** Store time. */
  readonly now: () => number;
  readonly settings: { readonly attemptBudgetMs: number };
}

/** Result of a test event. */
export interface TestOutcome {
  /** The receiver answered with 200 to 299 in time. */
  readonly isDelivered: boolean;
  readonly result: SendResult;
  /** The posted body. */
  readonly payload: string;
}

/** Sends sample events, signed like any other, with one attempt each. */
export class TestAttempts {
  readonly #deps: TestAttemptsDeps;
  /** Endpoints with a test in progress: at most one each. */
  readonly #underWay = new Set<string>();

  constructor(deps: TestAttemptsDeps) {
    this.#deps = deps;
  }

  /** Rejects with ServiceError `conflict` while another one of this endpoint is under way. */
  async make(endpoint: EndpointRecord, type: EventType): Promise<TestOutcome> {
    const { id } = endpoint;
    if (this.#underWay.has(id)) {
      throw new ServiceError("conflict", "A test event of this endpoint is under way. Wait for its answer.");
    }
    this.#underWay.add(id);
    try {
      return await this.#attempt(endpoint, type);
    } finally {
      this.#underWay.delete(id);
    }
  }

  async #attempt({ id, account, url, secrets: kept }: EndpointRecord, type: EventType): Promise<TestOutcome> {
    const { sender, ids, now, settings } = this.#deps;
    const atMs = now();
    const eventId = `evt_${sha256Hex(ids.text("test_")).slice(0, 32)}`;
    const { body } = sampleEvent(type, account, eventId, atMs);
    const secrets = signingSecrets(kept, atMs, (sealed) => this.#open(sealed, id));
    if (secrets === null) return { isDelivered: false, result: secretUnreadable, payload: body };
    const facts = { secrets, eventId, deliveryId: deliveryId(eventId, id), attemptNumber: 1, body, atMs };
    const headers = attemptHeaders(facts);
    const result = await sender.send({ account, url, headers, body, budgetMs: settings.attemptBudgetMs });
    return { isDelivered: isDelivered(result), result, payload: body };
  }

  #open(sealed: string, owner: string): string | null {
    try {
      return this.#deps.secrets.open(sealed, owner);
    } catch (error) {
      if (error instanceof UnsealError) return null;
      throw error;
    }
  }
}

const facts = {
  requestId: "req_00000000000000000000000000000000",
  model: "example-model",
  promptTokens: 12,
  completionTokens: 34,
  latencyMs: 567,
};
const failure = {
  code: "upstream_timeout",
  message: "The deadline passed before the answer was complete.",
} as const;

/** A sample event with invented facts, a fresh id and `"test": true` (WH-49). */
export function sampleEvent(type: EventType, account: string, id: string, atMs: number): EventDraft {
  const event = JSON.parse(bodyOf(type, account, atMs)) as object;
  return { id, type, body: JSON.stringify({ ...event, id, test: true }) };
}

function bodyOf(type: EventType, account: string, atMs: number): string {
  switch (type) {
    case "request.completed":
      return requestCompleted(facts, atMs).body;
    case "request.failed":
      return requestFailed(facts, failure, atMs).body;
    case "usage.threshold_reached":
      return thresholdBody(account, atMs);
  }
}

function thresholdBody(account: string, atMs: number): string {
  const threshold = {
    id: "thr_000000000000000000000000",
    account,
    apiKeyId: null,
    metric: "tokens",
    period: "month",
    limit: 1_000n,
    percents: [80],
    action: "notify",
    createdAtMs: atMs,
    updatedAtMs: atMs,
  } as const;
  const event = thresholdEvent(threshold, { percent: 80, value: 800n }, periodAt("month", atMs), atMs);
  return `${event.prefix}801${event.suffix}`;
}
