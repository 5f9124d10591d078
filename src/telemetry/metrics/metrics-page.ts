import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate } from "node:timers/promises";
import { collectDefaultMetrics, type Metric, Registry } from "prom-client";
import { inferenceNames } from "../../contract/operations.js";
import { version } from "../../contract/version.js";
import type { StateHealth } from "../../domain/service/state.js";
import { genAiOperations, genAiProvider } from "../traces/span-writer.js";
import { type Buckets, bounds, type CallMetrics, type CallSeries } from "./call-metrics.js";
import {
  type Collect,
  histogramsSamples,
  type Labels,
  type MetricData,
  type MetricName,
  metricRow,
  metricTable,
  type Sample,
  samplesBy,
  single,
} from "./metric-table.js";
import { type UpstreamSources, upstreamSamples } from "./upstream-metrics.js";
import { createBacklogReader, type WebhookSources, waitingDeliveries, webhookSamples } from "./webhook-metrics.js";

/** Current state of one model. */
interface ModelState {
  readonly id: string;
  readonly running: number;
  readonly waiting: number;
  readonly engineRestarts: number;
  /** Tries that its retry budget denied; null: it has no deployment at an upstream. */
  readonly triesDenied: number | null;
}

/** Values that are read each time the page is rendered. */
export interface MetricSources {
  readonly models: () => readonly ModelState[];
  /** Settlements that wait for the store. */
  readonly spooled: () => { readonly size: number; readonly memoryOnly: number; readonly oldestAtMs: number | null };
  readonly stateHealth: () => Promise<Pick<StateHealth, "ok" | "writeFault" | "clock">>;
  readonly areLimitsDegraded: () => boolean;
  /** Resources that the accounts share, and how many entries wait for each. */
  readonly fairShares: Readonly<Record<string, { readonly waiting: number }>>;
  readonly auditRecordsLost: () => number;
  readonly requestLogsDropped: () => number;
  /** Null: this process sends no webhooks. */
  readonly webhooks: WebhookSources | null;
  readonly upstreams: UpstreamSources;
  /** Current wall-clock time. */
  readonly now: () => number;
}

/** `/metrics` in Prometheus's text format. */
export function createMetricsPage(calls: CallMetrics, sources: MetricSources) {
  const rendered = { number: 0 };
  const backlog = createBacklogReader(sources.webhooks, rendered);
  const waiting = async (): Promise<Sample[]> => {
    const shares = Object.entries(sources.fairShares).map(([resource, share]) => [resource, share.waiting] as const);
    const deliveries = sources.webhooks === null ? [] : [["webhooks", waitingDeliveries(await backlog())] as const];
    return samplesBy("resource", new Map([...deliveries, ...shares]));
  };
  const collectors: Record<MetricName, Collect> = {
    ...callSamples(calls),
    ...stateSamples(calls, sources),
    ...webhookSamples(sources.webhooks, backlog),
    uis_fair_share_waiting: waiting,
    ...upstreamSamples(sources.upstreams),
  };
  const registry = new Registry();
  for (const name of Object.keys(metricTable) as MetricName[]) register(registry, name, collectors[name]);
  const page = Registry.merge([registry, processMetrics().registry]);
  return {
    contentType: page.contentType,
    render(): Promise<string> {
      rendered.number += 1;
      return renderInSlices(page);
    },
    /** The metrics one after the other, as data. */
    async *read(): AsyncGenerator<MetricData> {
      rendered.number += 1;
      for (const metric of page.getMetricsAsArray() as unknown as readonly Readable[]) yield await metric.get();
    },
  };
}

/** The common interface of prom-client's metrics and those of `register`. */
interface Readable {
  get(): Promise<MetricData>;
}

/** Renders metrics that were read elsewhere. */
export async function renderMetrics(metrics: readonly MetricData[]): Promise<string> {
  const registry = new Registry();
  for (const metric of metrics) registry.registerMetric({ ...metric, get: async () => metric } as unknown as Metric);
  return renderInSlices(registry);
}

/** Content-Type of the metrics page. */
export const { contentType: metricsType } = new Registry();

/** Longest time that the page is rendered before other work runs. One metric is never divided. */
const sliceMs = 5;

/** Renders the same text as `page.metrics()`, but lets other work run in between: with hundreds of models it takes long. */
async function renderInSlices(page: Registry): Promise<string> {
  const texts: string[] = [];
  let sinceMs = performance.now();
  for (const { name } of page.getMetricsAsArray()) {
    texts.push(await page.getSingleMetricAsString(name));
    if (performance.now() - sinceMs < sliceMs) continue;
    await setImmediate();
    sinceMs = performance.now();
  }
  return `${texts.join("\n\n")}\n`;
}

/** Adds a metric whose samples are created when the page is rendered. */
function register(registry: Registry, name: MetricName, collect: Collect): void {
  const { type, help } = metricRow(name);
  const metric = { name, help, type, get: async () => ({ name, help, type, values: await collect(name) }) };
  // The type is that of prom-client's own metrics, of which the registry uses only these fields.
  registry.registerMetric(metric as unknown as Metric);
}

const healthFreshMs = 500;

function stateSamples(calls: CallMetrics, sources: MetricSources) {
  const { models, spooled, stateHealth, areLimitsDegraded, auditRecordsLost, requestLogsDropped, now } = sources;
  const byModel = (countOf: (model: ModelState) => number | null, isAtRestShown: boolean): Collect => {
    return () => samplesBy("model", sumsByLabel(calls, models(), countOf, isAtRestShown));
  };
  const { loopDelay } = processMetrics();
  let read: { readonly atMs: number; readonly health: ReturnType<typeof stateHealth> } | null = null;
  /** One round trip to the store for all metrics of a page. */
  const health = () => {
    const atMs = performance.now();
    if (read === null || atMs - read.atMs > healthFreshMs) read = { atMs, health: stateHealth() };
    return read.health;
  };
  return {
    uis_requests_running: byModel(({ running }) => running, true),
    uis_requests_waiting: byModel(({ waiting }) => waiting, true),
    uis_engine_restarts_total: byModel(({ engineRestarts }) => engineRestarts, false),
    uis_retry_budget_exhausted_total: byModel(({ triesDenied }) => triesDenied, true),
    uis_usage_spool_size: () => single(spooled().size),
    uis_usage_memory_only: () => single(spooled().memoryOnly),
    uis_usage_spool_oldest_seconds: () => single(ageSeconds(spooled().oldestAtMs, now())),
    uis_store_up: async () => {
      const { ok, writeFault } = await health();
      return single(Number(ok && writeFault === null));
    },
    uis_clock_jumps_total: async () => single((await health()).clock.jumps),
    uis_store_time_ahead_seconds: async () => single((await health()).clock.aheadMs / 1_000),
    uis_limits_degraded: () => single(Number(areLimitsDegraded())),
    uis_audit_records_lost_total: () => single(auditRecordsLost()),
    uis_request_logs_dropped_total: () => single(requestLogsDropped()),
    uis_event_loop_lag_seconds: () => single(takeLoopLag(loopDelay)),
    uis_build_info: (): Sample[] => [{ labels: { version, node: process.versions.node }, value: 1 }],
  } satisfies Partial<Record<MetricName, Collect>>;
}

/** Counts above 0 and, with `isAtRestShown`, 0 for models that were used. Models without the count have no line. */
function sumsByLabel(
  calls: CallMetrics,
  models: readonly ModelState[],
  countOf: (model: ModelState) => number | null,
  isAtRestShown: boolean,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const model of models) {
    const count = countOf(model);
    if (count === null) continue;
    if (count === 0 && !(isAtRestShown && calls.hasLabel(model.id))) continue;
    const label = calls.labelOf(model.id);
    sums.set(label, (sums.get(label) ?? 0) + count);
  }
  return sums;
}

function ageSeconds(sinceMs: number | null, nowMs: number): number {
  return sinceMs === null ? 0 : Math.max(0, nowMs - sinceMs) / 1_000;
}

/** Gauges that are named like counters, which `promtool check metrics` does not accept. */
const misnamed = ["nodejs_active_resources_total", "nodejs_active_handles_total", "nodejs_active_requests_total"];

/** Interval at which the lag is sampled. Measured delays include this interval. */
const sampleMs = 10;

let started: { readonly registry: Registry; readonly loopDelay: IntervalHistogram } | null = null;

/** Metrics of the process, such as CPU time. They are started once, even if the process runs several services. */
function processMetrics() {
  if (started !== null) return started;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const loopDelay = monitorEventLoopDelay({ resolution: sampleMs });
  loopDelay.enable();
  started = { registry, loopDelay };
  return started;
}

/** Lag of the event loop in seconds since the last call, 99th percentile. */
function takeLoopLag(loopDelay: IntervalHistogram): number {
  // The percentile of an empty histogram is far above 0.
  const delayMs = loopDelay.count === 0 ? 0 : loopDelay.percentile(99) / 1e6;
  loopDelay.reset();
  return Math.max(0, delayMs - sampleMs) / 1_000;
}

/** Operation and label of the model of a series. */
type SeriesName = Pick<CallSeries, "operation" | "model">;

interface Histogram {
  readonly labels: Labels;
  readonly buckets: Buckets;
}

/** Collectors of all metrics of calls. */
function callSamples(calls: CallMetrics) {
  const histograms = (
    own: readonly number[],
    histogramsOf: (series: CallSeries, name: SeriesName) => readonly Histogram[],
  ): Collect => {
    return (metric) => {
      const all = calls.series().flatMap((series) => {
        const { operation, model } = series;
        return histogramsOf(series, { operation, model: calls.histogramLabelOf(model) });
      });
      return histogramsSamples(metric, all, own);
    };
  };
  type EngineHistogram = "firstToken" | "tokenGap" | "queue" | "overhead";
  const ofEngine = (toLabels: (name: SeriesName) => Labels | null, key: EngineHistogram, own: readonly number[]) =>
    histograms(own, ({ engine }, name) => {
      const labels = toLabels(name);
      return engine === null || labels === null ? [] : [{ labels, buckets: engine[key] }];
    });
  return {
    uis_requests_total: () => calls.series().flatMap(requestCounts),
    uis_request_duration_seconds: histograms(bounds.duration, requestDurations),
    uis_time_to_first_token_seconds: ofEngine(labelsOf, "firstToken", bounds.firstToken),
    uis_inter_token_latency_seconds: ofEngine(labelsOf, "tokenGap", bounds.tokenGap),
    uis_queue_time_seconds: ofEngine(labelsOf, "queue", bounds.queue),
    uis_overhead_seconds: ofEngine(labelsOf, "overhead", bounds.overhead),
    uis_rejections_total: () => samplesBy("reason", calls.rejections),
    uis_ratelimit_hits_total: () => samplesBy("limit", calls.limitHits),
    uis_tokens_total: () => tokenCounts(calls.series()),
    uis_client_cancelled_total: () => samplesBy("stage", calls.leaves),
    uis_usage_unrecorded_total: () => single(calls.usagesLost),
    uis_upstream_token_estimate_ratio: (name) => {
      const all = [...calls.estimateRatios].map(([model, buckets]) => {
        return { labels: { model: calls.histogramLabelOf(model) }, buckets };
      });
      return histogramsSamples(name, all, bounds.estimateRatio);
    },
    gen_ai_server_request_duration_seconds: histograms(bounds.genAiDuration, genAiDurations),
    gen_ai_server_time_to_first_token_seconds: ofEngine(genAiLabels, "firstToken", bounds.firstToken),
    gen_ai_server_time_per_output_token_seconds: ofEngine(genAiLabels, "tokenGap", bounds.genAiTokenGap),
  } satisfies Partial<Record<MetricName, Collect>>;
}

function labelsOf({ operation, model }: SeriesName): Labels {
  return { route: operation, model };
}

/** Labels of a series in OpenTelemetry's metrics; null if its conventions have no name for the operation. */
function genAiLabels({ operation, model }: SeriesName): Labels | null {
  const name = genAiOperations.get(operation);
  if (name === undefined) return null;
  return { gen_ai_operation_name: name, gen_ai_provider_name: genAiProvider, gen_ai_request_model: model };
}

function requestCounts(series: CallSeries): Sample[] {
  const operation = inferenceNames.get(series.operation) ?? "";
  return [...series.durations].map(([code, durations]) => ({
    labels: { ...labelsOf(series), operation, code },
    value: durations.count,
  }));
}

function requestDurations({ durations }: CallSeries, name: SeriesName): readonly Histogram[] {
  return [...durations.values()].map((buckets) => ({ labels: labelsOf(name), buckets }));
}

function genAiDurations({ durations }: CallSeries, name: SeriesName): readonly Histogram[] {
  const labels = genAiLabels(name);
  if (labels === null) return [];
  return [...durations].map(([code, buckets]) => ({
    labels: code === "ok" ? labels : { ...labels, error_type: code },
    buckets,
  }));
}

/** Tokens by model, summed over operations. Most models have neither cached nor reasoning tokens, and then no such line. */
function tokenCounts(all: readonly CallSeries[]): Sample[] {
  const byModel = new Map<string, { prompt: number; completion: number; cached: number; reasoning: number }>();
  for (const { model, engine } of all) {
    if (engine === null) continue;
    const sums = byModel.get(model) ?? { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
    byModel.set(model, sums);
    sums.prompt += engine.promptTokens;
    sums.completion += engine.completionTokens;
    sums.cached += engine.cachedTokens;
    sums.reasoning += engine.reasoningTokens;
  }
  return [...byModel].flatMap(([model, { prompt, completion, cached, reasoning }]) => [
    { labels: { model, type: "prompt" }, value: prompt },
    { labels: { model, type: "completion" }, value: completion },
    ...(cached > 0 ? [{ labels: { model, type: "cached" }, value: cached }] : []),
    ...(reasoning > 0 ? [{ labels: { model, type: "reasoning" }, value: reasoning }] : []),
  ]);
}
