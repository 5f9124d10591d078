import { type SecretBox, sha256Hex, UnsealError } from "../../lib/crypto.js";
import type { IdSource } from "../call/ports.js";
import {
  type EventDraft,
  type EventType,
  periodAt,
  requestCompleted,
  requestFailed,
  thresholdEvent,
} from "../events/events.js";
import { deliveryId, isDelivered, type SendResult, secretUnreadable, type WebhookSender } from "./delivery.js";
import { attemptHeaders, signaturesOf } from "./delivery-attempts.js";
import type { EndpointRecord } from "./endpoint-store.js";
import { signingSecrets } from "./endpoint-store.js";

export interface TestEventDeps {
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

/** Sends a signed sample event with one attempt. */
export async function attemptTest(
  { sender, secrets, ids, now, settings }: TestEventDeps,
  { id, account, url, secrets: kept }: EndpointRecord,
  type: EventType,
): Promise<TestOutcome> {
  const atMs = now();
  const eventId = `evt_${sha256Hex(ids.text("test_")).slice(0, 32)}`;
  const { body } = sampleEvent(type, account, eventId, atMs);
  const opened = signingSecrets(kept, atMs, (sealed) => openOrNull(secrets, sealed, id));
  if (opened === null) return { isDelivered: false, result: secretUnreadable, payload: body };
  const attemptIds = { eventId, deliveryId: deliveryId(eventId, id), attemptNumber: 1 };
  const headers = attemptHeaders(attemptIds, signaturesOf({ secrets: opened, eventId, body, atMs }));
  const result = await sender.send({ account, url, headers, body, budgetMs: settings.attemptBudgetMs });
  return { isDelivered: isDelivered(result), result, payload: body };
}

function openOrNull(secrets: Pick<SecretBox, "open">, sealed: string, owner: string): string | null {
  try {
    return secrets.open(sealed, owner);
  } catch (error) {
    if (error instanceof UnsealError) return null;
    throw error;
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
  if (type === "request.completed") return requestCompleted(facts, atMs).body;
  if (type === "request.failed") return requestFailed(facts, failure, atMs).body;
  const times = { createdAtMs: atMs, updatedAtMs: atMs };
  const id = "thr_000000000000000000000000";
  const kind = { metric: "tokens", period: "month", limit: 1_000n, percents: [80], action: "notify" } as const;
  const threshold = { id, account, apiKeyId: null, ...kind, ...times };
  const event = thresholdEvent(threshold, { percent: 80, value: 800n }, periodAt("month", atMs), atMs);
  return `${event.prefix}801${event.suffix}`;
}
