import type { EndpointBacklog } from "../../domain/webhooks/delivery-queue.js";
import { bounds } from "./bounds.js";
import type { Collect } from "./call-samples.js";
import type { MetricName } from "./metric-table.js";
import { histogramSamples, type Sample, samplesBy, single } from "./samples.js";
import type { WebhookMetrics } from "./webhook-metrics.js";

/** What a process that sends webhooks knows of them. */
export interface WebhookSources {
  readonly metrics: WebhookMetrics;
  /** What waits for each endpoint, the longest wait first. Rejects when the store does not answer. */
  readonly backlog: () => Promise<readonly EndpointBacklog[]>;
  readonly inFlight: () => number;
  /** Store time. */
  readonly now: () => number;
}

/** Endpoints with lines of their own: those that have waited longest. All others share the line `other`. */
const endpointsMax = 100;

interface Waiting {
  open: number;
  oldestS: number;
}

type ToSamples = (sources: WebhookSources, name: MetricName) => readonly Sample[] | Promise<readonly Sample[]>;

/** Null: this process sends no webhooks, and its page has no lines of them. */
export function webhookSamples(sources: WebhookSources | null) {
  const each = (toSamples: ToSamples): Collect => {
    return async (name) => (sources ? toSamples(sources, name) : []);
  };
  const waiting = sharedWhileUnderWay(waitingByEndpoint);
  const byEndpoint = (pick: (waiting: Waiting) => number): Collect =>
    each(async (of) => samplesBy("endpoint", new Map([...(await waiting(of))].map(([id, all]) => [id, pick(all)]))));
  return {
    uis_webhook_deliveries_total: each(({ metrics }) => samplesBy("result", metrics.effects)),
    uis_webhook_attempt_duration_seconds: each(({ metrics }, name) =>
      [...metrics.durations].flatMap(([answer, durations]) =>
        histogramSamples(name, { answer }, durations, bounds.webhookAttempt),
      ),
    ),
    uis_webhook_lateness_seconds: each(({ metrics }, name) =>
      histogramSamples(name, {}, metrics.lateness, bounds.webhookLateness),
    ),
    uis_webhook_backlog: byEndpoint(({ open }) => open),
    uis_webhook_oldest_seconds: byEndpoint(({ oldestS }) => oldestS),
    uis_webhook_in_flight: each(({ inFlight }) => single(inFlight())),
    uis_webhook_endpoints_failing: each(({ metrics }) => single(metrics.failing)),
  } satisfies Partial<Record<MetricName, Collect>>;
}

/** No lines when the store does not answer: `uis_store_up` says so. */
async function waitingByEndpoint({ backlog, now }: WebhookSources): Promise<ReadonlyMap<string, Waiting>> {
  const all = await backlog().catch(() => []);
  const nowMs = now();
  const waiting = new Map<string, Waiting>();
  for (const [i, { endpointId, open, oldestDueAtMs }] of all.entries()) {
    const label = i < endpointsMax ? endpointId : "other";
    const sum = waiting.get(label) ?? { open: 0, oldestS: 0 };
    waiting.set(label, sum);
    sum.open += open;
    if (oldestDueAtMs !== null) sum.oldestS = Math.max(sum.oldestS, (nowMs - oldestDueAtMs) / 1_000);
  }
  return waiting;
}

/** Two metrics of one page come from one question to the store. */
function sharedWhileUnderWay<A, T>(ask: (argument: A) => Promise<T>): (argument: A) => Promise<T> {
  let underWay: Promise<T> | null = null;
  return (argument) => {
    underWay ??= ask(argument).finally(() => {
      underWay = null;
    });
    return underWay;
  };
}
