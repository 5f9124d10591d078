import type { EventDraft, EventType } from "../events/event-draft.js";
import { periodAt } from "../events/period.js";
import { requestCompleted, requestFailed } from "../events/request-event.js";
import { thresholdEvent } from "../events/threshold-event.js";

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

/** An event of the type as receivers get it, with invented facts, an id of its own and `"test": true` (WH-49). */
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
