import type { AttemptEffect, AttemptEnd, WebhookObserver } from "../../domain/webhooks/delivery.js";
import type { EndpointBacklog, WaitingEvents } from "../../domain/webhooks/delivery-queue.js";
import { Buckets, bounds } from "./call-metrics.js";
import type { MetricName } from "./metric-table.js";
import { type Collect, histogramSamples, type Sample, samplesBy, single } from "./metric-table.js";

/** Counts attempts of deliveries (WH-51). */
export class WebhookMetrics implements WebhookObserver {
  /** Attempts by their effect on the delivery. */
  readonly effects = new Map<AttemptEffect, number>();
  /** Durations of attempts by the receiver's answer. */
  readonly durations = new Map<AttemptEnd["answer"], Buckets>();
  /** Seconds from the due time of an attempt to its start. */
  readonly lateness = new Buckets(bounds.webhookLateness);
  /** Number of endpoints that are failing at present. */
  failing = 0;

  attemptEnded({ effect, answer, durationMs, latenessMs }: AttemptEnd): void {
    this.effects.set(effect, (this.effects.get(effect) ?? 0) + 1);
    let durations = this.durations.get(answer);
    if (durations === undefined) {
      durations = new Buckets(bounds.webhookAttempt);
      this.durations.set(answer, durations);
    }
    durations.observe(durationMs / 1_000);
    this.lateness.observe(latenessMs / 1_000);
  }

  endpointsFailing(count: number): void {
    this.failing = count;
  }
}

/** The webhooks of a process that sends them. */
export interface WebhookSources {
  readonly metrics: WebhookMetrics;
  /** Open deliveries by endpoint, the longest wait first. Rejects when the store is unavailable. */
  readonly backlog: () => Promise<readonly EndpointBacklog[]>;
  /** Events whose deliveries are not created yet. Rejects when the store is unavailable. */
  readonly waitingEvents: () => Promise<WaitingEvents>;
  readonly inFlight: () => number;
  /** Current time of the store. */
  readonly now: () => number;
}

/** Number of endpoints with samples of their own: those with the longest wait. All others share the label `other`. */
const endpointsMax = 100;

interface Waiting {
  open: number;
  oldestS: number;
}

/** Reads the backlog once for all metrics of a page. No backlog while the store is unavailable, which `uis_store_up` reports. */
export function createBacklogReader(sources: WebhookSources | null, page: { readonly number: number }) {
  let readFor = 0;
  let reading: Promise<readonly EndpointBacklog[]> = Promise.resolve([]);
  return (): Promise<readonly EndpointBacklog[]> => {
    if (readFor !== page.number) reading = sources?.backlog().catch(() => []) ?? Promise.resolve([]);
    readFor = page.number;
    return reading;
  };
}

/** Number of open deliveries to endpoints that have a due delivery: these wait for a slot. */
export function waitingDeliveries(backlog: readonly EndpointBacklog[]): number {
  return backlog.reduce((sum, { open, oldestDueAtMs }) => (oldestDueAtMs === null ? sum : sum + open), 0);
}

type ToSamples = (sources: WebhookSources, name: MetricName) => readonly Sample[] | Promise<readonly Sample[]>;

/** Collectors of the webhook metrics. Null: this process sends no webhooks, and its page has no samples of them. */
export function webhookSamples(sources: WebhookSources | null, backlog: () => Promise<readonly EndpointBacklog[]>) {
  const each = (toSamples: ToSamples): Collect => {
    return async (name) => (sources ? toSamples(sources, name) : []);
  };
  const byEndpoint = (pick: (waiting: Waiting) => number): Collect =>
    each(async ({ now }) => {
      const waiting = waitingByEndpoint(await backlog(), now());
      return samplesBy("endpoint", new Map([...waiting].map(([id, all]) => [id, pick(all)])));
    });
  /** No samples while the store is unavailable. */
  const eventGauge = (pick: (waiting: WaitingEvents, nowMs: number) => number): Collect =>
    each(async ({ waitingEvents, now }) => {
      const found = await waitingEvents().catch(() => null);
      return found === null ? [] : single(pick(found, now()));
    });
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
    uis_webhook_events_waiting: eventGauge(({ events }) => events),
    uis_webhook_events_oldest_seconds: eventGauge(({ oldestAtMs }, nowMs) =>
      oldestAtMs === null ? 0 : Math.max(0, nowMs - oldestAtMs) / 1_000,
    ),
    uis_webhook_in_flight: each(({ inFlight }) => single(inFlight())),
    uis_webhook_endpoints_failing: each(({ metrics }) => single(metrics.failing)),
  } satisfies Partial<Record<MetricName, Collect>>;
}

function waitingByEndpoint(all: readonly EndpointBacklog[], nowMs: number): ReadonlyMap<string, Waiting> {
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
