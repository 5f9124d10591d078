import { requestCompleted, requestFailed } from "../../../src/domain/events/events.js";
import type { State } from "../../../src/domain/service/state.js";
import type { AttemptResult } from "../../../src/domain/webhooks/delivery.js";
import type { AttemptOutcome, Claim } from "../../../src/domain/webhooks/delivery-queue.js";
import { settlement } from "../records.js";
import { assistant, summarizer } from "./company-data.js";

const minuteMs = 60_000;

/** Retry delays of the specification. */
const delaysMs = [0.5, 2, 10, 30, 120].map((minutes) => minutes * minuteMs);

interface Story {
  readonly minutesAgo: number;
  /** The receiver's status for each attempt; null for a timeout. */
  readonly answers: readonly (number | null)[];
  /** The request failed, so both endpoints get an event. */
  readonly isFailure?: boolean;
}

/** In chronological order, because the clock must not go back. */
const stories: readonly Story[] = [
  { minutesAgo: 415, answers: [500, 500, 500, 500, 500, 500], isFailure: true },
  { minutesAgo: 230, answers: [503, null, 204] },
  { minutesAgo: 154, answers: [200] },
  { minutesAgo: 96, answers: [200] },
  { minutesAgo: 41, answers: [200] },
  { minutesAgo: 12, answers: [200] },
  { minutesAgo: 8, answers: [503, 503, 503] },
];

/** Writes deliveries as the dispatcher would. `timeIs` sets the clock to the given number of milliseconds before now. */
export async function makeDeliveries(state: State, timeIs: (agoMs: number) => void): Promise<void> {
  for (const [index, story] of stories.entries()) {
    let agoMs = story.minutesAgo * minuteMs;
    timeIs(agoMs);
    await endRequest(state, index, story);
    for (const [attempt, status] of story.answers.entries()) {
      const delayMs = delaysMs[attempt];
      const { claims } = await state.deliveries.claim({ max: 8, leaseMs: minuteMs });
      const outcome = outcomeOf(status, delayMs);
      for (const claim of claims) await state.deliveries.finish({ claim, result: resultOf(claim, status), outcome });
      agoMs -= delayMs ?? 0;
      timeIs(agoMs);
    }
  }
}

function outcomeOf(status: number | null, delayMs: number | undefined): AttemptOutcome {
  if (status !== null && status < 300) return { state: "delivered" };
  if (delayMs === undefined) return { state: "permanently_failed", reason: "retries_used_up" };
  return { state: "awaiting_retry", delayMs };
}

function resultOf({ attemptNumber }: Claim, status: number | null): AttemptResult {
  return {
    startedAtMs: Date.now(),
    latencyMs: status === null ? 5_000 : 84 + ((attemptNumber * 41) % 60),
    status,
    error: status === null ? "timeout" : null,
    ip: "203.0.113.20",
    response: status === null ? null : status < 300 ? '{"received":true}' : "upstream is restarting",
    retryAfter: null,
    signatures: [`t=${Math.floor(Date.now() / 1_000)},v1=${"0a".repeat(32)}`, `v1,${"Cg".repeat(21)}o=`],
  };
}

async function endRequest({ ledger }: State, index: number, { isFailure = false }: Story): Promise<void> {
  const requestId = `req_${index}5f0c9a27d84e13b6a1c2d3e4f50617a`;
  const model = index % 3 === 0 ? summarizer : assistant;
  const facts = { requestId, model, promptTokens: 1_437, completionTokens: 380, latencyMs: 9_412 + index * 210 };
  const failure = {
    code: "upstream_timeout",
    message: "The deadline passed before the answer was complete.",
  } as const;
  const event = isFailure ? requestFailed(facts, failure, Date.now()) : requestCompleted(facts, Date.now());
  const nothingMore = { promptTokens: 0, completionTokens: 0 };
  await ledger.settle(settlement(requestId, { account: "default", keyId: null, model, event, ...nothingMore }));
}
