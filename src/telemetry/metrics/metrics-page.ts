import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { collectDefaultMetrics, type Metric, Registry } from "prom-client";
import { version } from "../../contract/version.js";
import type { CallMetrics } from "./call-metrics.js";
import { type Collect, callSamples } from "./call-samples.js";
import { type MetricName, metricRow, metricTable } from "./metric-table.js";
import { type Sample, samplesBy, single } from "./samples.js";
import { type WebhookSources, webhookSamples } from "./webhook-metrics.js";

/** One model as it stands. */
export interface ModelState {
  readonly id: string;
  readonly running: number;
  readonly waiting: number;
  readonly engineRestarts: number;
}

/** What is not counted but asked for, each time that the page is. */
export interface MetricSources {
  readonly models: () => readonly ModelState[];
  /** Settlements that wait for the store. */
  readonly spooled: () => { readonly size: number; readonly memoryOnly: number; readonly oldestAtMs: number | null };
  readonly isStoreUp: () => Promise<boolean>;
  readonly areLimitsDegraded: () => boolean;
  readonly auditRecordsLost: () => number;
  /** Null: this process sends no webhooks. */
  readonly webhooks: WebhookSources | null;
  /** Wall-clock time. */
  readonly now: () => number;
}

/** `/metrics` in Prometheus's text form. */
export interface MetricsPage {
  readonly contentType: string;
  render(): Promise<string>;
}

export function createMetricsPage(calls: CallMetrics, sources: MetricSources): MetricsPage {
  const collectors: Record<MetricName, Collect> = {
    ...callSamples(calls),
    ...stateSamples(calls, sources),
    ...webhookSamples(sources.webhooks),
  };
  const registry = new Registry();
  for (const name of Object.keys(metricTable) as MetricName[]) register(registry, name, collectors[name]);
  const page = Registry.merge([registry, processMetrics().registry]);
  return { contentType: page.contentType, render: () => page.metrics() };
}

/** Puts a metric into the registry whose lines are made when they are asked for. */
function register(registry: Registry, name: MetricName, collect: Collect): void {
  const { type, help } = metricRow(name);
  const metric = { name, help, type, get: async () => ({ name, help, type, values: await collect(name) }) };
  // The types know prom-client's own metrics only; what the registry uses of them is this.
  registry.registerMetric(metric as unknown as Metric);
}

function stateSamples(calls: CallMetrics, sources: MetricSources) {
  const { models, spooled, isStoreUp, areLimitsDegraded, auditRecordsLost, now } = sources;
  const byModel = (countOf: (model: ModelState) => number): Collect => {
    return () => samplesBy("model", sumsByLabel(calls, models(), countOf));
  };
  const { loopDelay } = processMetrics();
  return {
    uis_requests_running: byModel(({ running }) => running),
    uis_requests_waiting: byModel(({ waiting }) => waiting),
    uis_engine_restarts_total: byModel(({ engineRestarts }) => engineRestarts),
    uis_usage_spool_size: () => single(spooled().size),
    uis_usage_memory_only: () => single(spooled().memoryOnly),
    uis_usage_spool_oldest_seconds: () => single(ageSeconds(spooled().oldestAtMs, now())),
    uis_store_up: async () => single(Number(await isStoreUp())),
    uis_limits_degraded: () => single(Number(areLimitsDegraded())),
    uis_audit_records_lost_total: () => single(auditRecordsLost()),
    uis_event_loop_lag_seconds: () => single(takeLoopLag(loopDelay)),
    uis_build_info: (): Sample[] => [{ labels: { version, node: process.versions.node }, value: 1 }],
  } satisfies Partial<Record<MetricName, Collect>>;
}

function sumsByLabel(
  calls: CallMetrics,
  models: readonly ModelState[],
  countOf: (model: ModelState) => number,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const model of models) {
    const label = calls.labelOf(model.id);
    sums.set(label, (sums.get(label) ?? 0) + countOf(model));
  }
  return sums;
}

function ageSeconds(sinceMs: number | null, nowMs: number): number {
  return sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1_000;
}

/** Gauges that are named like counters, which `promtool check metrics` does not accept. */
const misnamed = ["nodejs_active_resources_total", "nodejs_active_handles_total", "nodejs_active_requests_total"];

/** How often the lag is looked at. A measured delay holds this wait, too. */
const everyMs = 10;

interface ProcessMetrics {
  readonly registry: Registry;
  readonly loopDelay: IntervalHistogram;
}

let started: ProcessMetrics | null = null;

/** Metrics of this process. There is one process, so they are started once, however many services it has. */
function processMetrics(): ProcessMetrics {
  if (started !== null) return started;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const loopDelay = monitorEventLoopDelay({ resolution: everyMs });
  loopDelay.enable();
  started = { registry, loopDelay };
  return started;
}

/** Lag of the event loop in seconds since the last call, 99th percentile. */
function takeLoopLag(loopDelay: IntervalHistogram): number {
  // Of an empty histogram the percentile is far above 0.
  const delayMs = loopDelay.count === 0 ? 0 : loopDelay.percentile(99) / 1e6;
  loopDelay.reset();
  return Math.max(0, delayMs - everyMs) / 1_000;
}
