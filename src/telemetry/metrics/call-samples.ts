import { genAiOperations, genAiProvider } from "../traces/span-writer.js";
import type { CallMetrics, CallSeries, EngineSeries } from "./call-metrics.js";
import { Buckets, bounds } from "./call-metrics.js";
import type { MetricName } from "./metric-table.js";
import { histogramSamples, type Labels, type Sample, samplesBy, single } from "./samples.js";

/** The lines of a metric, made from what was counted so far. */
export type Collect = (name: MetricName) => readonly Sample[] | Promise<readonly Sample[]>;

/** Everything that is counted of calls. */
export function callSamples(calls: CallMetrics) {
  const each = (toSamples: (series: CallSeries, name: MetricName) => Sample[]): Collect => {
    return (name) => calls.series().flatMap((series) => toSamples(series, name));
  };
  const ofEngine = (boundsOf: readonly number[], pick: (engine: EngineSeries) => Buckets): Collect =>
    each((series, name) => engineHistogram(name, labelsOf(series), series, boundsOf, pick));
  const ofGenAi = (boundsOf: readonly number[], pick: (engine: EngineSeries) => Buckets): Collect =>
    each((series, name) => engineHistogram(name, genAiLabels(series), series, boundsOf, pick));
  return {
    uis_requests_total: each(requestCounts),
    uis_request_duration_seconds: each(requestDurations),
    uis_time_to_first_token_seconds: ofEngine(bounds.firstToken, ({ firstToken }) => firstToken),
    uis_inter_token_latency_seconds: ofEngine(bounds.tokenGap, ({ tokenGap }) => tokenGap),
    uis_queue_time_seconds: ofEngine(bounds.queue, ({ queue }) => queue),
    uis_overhead_seconds: ofEngine(bounds.overhead, ({ overhead }) => overhead),
    uis_rejections_total: () => samplesBy("reason", calls.rejections),
    uis_ratelimit_hits_total: () => samplesBy("limit", calls.limitHits),
    uis_tokens_total: () => tokenCounts(calls.series()),
    uis_client_cancelled_total: () => samplesBy("stage", calls.leaves),
    uis_usage_unrecorded_total: () => single(calls.usagesLost),
    gen_ai_server_request_duration_seconds: each(genAiDurations),
    gen_ai_server_time_to_first_token_seconds: ofGenAi(bounds.firstToken, ({ firstToken }) => firstToken),
    gen_ai_server_time_per_output_token_seconds: ofGenAi(bounds.genAiTokenGap, ({ tokenGap }) => tokenGap),
  } satisfies Partial<Record<MetricName, Collect>>;
}

function labelsOf({ operation, model }: CallSeries): Labels {
  return { route: operation, model };
}

/** Null: no operation that OpenTelemetry's conventions have a name for. */
function genAiLabels({ operation, model }: CallSeries): Labels | null {
  const name = genAiOperations.get(operation);
  if (name === undefined) return null;
  return { gen_ai_operation_name: name, gen_ai_provider_name: genAiProvider, gen_ai_request_model: model };
}

function requestCounts(series: CallSeries): Sample[] {
  return [...series.durations].map(([code, durations]) => ({
    labels: { ...labelsOf(series), code },
    value: durations.count,
  }));
}

function requestDurations(series: CallSeries, name: MetricName): Sample[] {
  const all = new Buckets(bounds.duration);
  for (const durations of series.durations.values()) all.add(durations);
  return histogramSamples(name, labelsOf(series), all, bounds.duration);
}

function genAiDurations(series: CallSeries, name: MetricName): Sample[] {
  const labels = genAiLabels(series);
  if (labels === null) return [];
  return [...series.durations].flatMap(([code, durations]) => {
    const error = code === "ok" ? {} : { error_type: code };
    return histogramSamples(name, { ...labels, ...error }, durations, bounds.genAiDuration);
  });
}

function engineHistogram(
  name: MetricName,
  labels: Labels | null,
  { engine }: CallSeries,
  boundsOf: readonly number[],
  pick: (engine: EngineSeries) => Buckets,
): Sample[] {
  return engine === null || labels === null ? [] : histogramSamples(name, labels, pick(engine), boundsOf);
}

/** By model, whatever the operation. */
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
  return [...byModel].flatMap(([model, sums]) =>
    Object.entries(sums).map(([type, value]) => ({ labels: { model, type }, value })),
  );
}
