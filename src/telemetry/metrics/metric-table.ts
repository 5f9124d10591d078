import type { Buckets } from "./call-metrics.js";

/**
 * One metric. `docs/metrics.md` is written from the table, and a test compares it with the page of a running service.
 * Names of OpenTelemetry's conventions for generative AI, which still change, are here and in `span-writer.ts` only.
 */
export interface MetricRow {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** One sentence for docs/metrics.md and for the line `# HELP` of the page. */
  readonly help: string;
  /** How the values of several workers are combined. Default: their sum. */
  readonly ofWorkers?: "largest" | "smallest";
}

const perCall = ["route", "model"] as const;
const perGenAiCall = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const;

export const metricTable = {
  uis_requests_total: {
    type: "counter",
    labels: ["route", "operation", "model", "code"],
    help: "Calls that ended, including rejected ones; code is ok or the code of the error.",
  },
  uis_request_duration_seconds: {
    type: "histogram",
    labels: perCall,
    help: "From the headers of a call to its end, including the time in which the client sends and reads.",
  },
  uis_time_to_first_token_seconds: {
    type: "histogram",
    labels: perCall,
    help: "From the headers of a streamed call to its first content.",
  },
  uis_inter_token_latency_seconds: {
    type: "histogram",
    labels: perCall,
    help: "Mean time between two tokens of a call, one observation per call.",
  },
  uis_queue_time_seconds: {
    type: "histogram",
    labels: perCall,
    help: "Time that a call waited for a slot of its model; only calls that got one.",
  },
  uis_overhead_seconds: {
    type: "histogram",
    labels: perCall,
    help: "Duration of a call less its wait for a slot and the time of the engine.",
  },
  uis_requests_running: { type: "gauge", labels: ["model"], help: "Slots of a model that are in use." },
  uis_requests_waiting: { type: "gauge", labels: ["model"], help: "Calls that wait for a slot of a model." },
  uis_rejections_total: {
    type: "counter",
    labels: ["reason"],
    help: "Calls rejected for authentication, a limit or load; reason is the code of the error.",
  },
  uis_ratelimit_hits_total: {
    type: "counter",
    labels: ["limit"],
    help: "Requests rejected by a limit: requests, tokens, concurrency or budget.",
  },
  uis_tokens_total: {
    type: "counter",
    labels: ["model", "type"],
    help: "Tokens: prompt and completion; cached is part of prompt, reasoning is part of completion.",
  },
  uis_client_cancelled_total: {
    type: "counter",
    labels: ["stage"],
    help: "Calls whose client left before their end, by the stage of the call.",
  },
  uis_engine_restarts_total: {
    type: "counter",
    labels: ["model"],
    help: "Restarts of the engine process of a model.",
  },
  uis_upstream_requests_total: {
    type: "counter",
    labels: ["upstream", "deployment", "outcome"],
    help: "Attempts at upstream servers by outcome; success includes answers that reject a request for a fault of the caller.",
  },
  uis_upstream_first_byte_seconds: {
    type: "histogram",
    labels: ["upstream", "deployment"],
    help: "From the request to an upstream server to the first byte of its answer's body.",
  },
  uis_upstream_ejected: {
    type: "gauge",
    labels: ["deployment"],
    help: "1 while a deployment at an upstream server is out of use because it failed; of other, their number.",
    ofWorkers: "largest",
  },
  uis_upstream_outstanding_tokens: {
    type: "gauge",
    labels: ["deployment"],
    help: "Estimated tokens that the running requests of a deployment at an upstream server still have to process.",
  },
  uis_upstream_token_estimate_ratio: {
    type: "histogram",
    labels: ["model"],
    help: "Settled over estimated prompt tokens of completed requests to upstream servers that a token limit or a budget applies to.",
  },
  uis_retry_budget_exhausted_total: {
    type: "counter",
    labels: ["model"],
    help: "Requests that were not tried again because the retry budget of their model was used up; models with upstreams.",
  },
  uis_usage_unrecorded_total: {
    type: "counter",
    labels: [],
    help: "Requests whose usage was neither stored nor spooled; must stay 0.",
  },
  uis_usage_spool_size: { type: "gauge", labels: [], help: "Settlements that wait for the store." },
  uis_usage_memory_only: {
    type: "gauge",
    labels: [],
    help: "Settlements among them that could not be written to the disk: a crash loses them; must stay 0.",
  },
  uis_usage_spool_oldest_seconds: {
    type: "gauge",
    labels: [],
    help: "Age of the oldest settlement that waits for the store; 0 when none waits.",
    ofWorkers: "largest",
  },
  uis_fair_share_waiting: {
    type: "gauge",
    labels: ["resource"],
    help: "Work that waits for its share of a resource that all accounts use: webhooks, lookups, usage_reads, lists or tokenizing.",
  },
  uis_store_up: {
    type: "gauge",
    labels: [],
    help: "1 when the store answers and accepts writes.",
    ofWorkers: "smallest",
  },
  uis_clock_jumps_total: {
    type: "counter",
    labels: [],
    help: "Jumps of the store's clock by more than state.clock_lead_max, or with Redis by more than 5 minutes.",
    ofWorkers: "largest",
  },
  uis_store_time_ahead_seconds: {
    type: "gauge",
    labels: [],
    help: "How far times in the store are ahead of its clock, which was set back; else 0.",
    ofWorkers: "largest",
  },
  uis_limits_degraded: {
    type: "gauge",
    labels: [],
    help: "1 while this process decides limits without the shared store.",
    ofWorkers: "largest",
  },
  uis_audit_records_lost_total: {
    type: "counter",
    labels: [],
    help: "Audit records that could not be written.",
  },
  uis_request_logs_dropped_total: {
    type: "counter",
    labels: [],
    help: "Requests that are missing in the request log because the store did not accept them in time.",
  },
  uis_webhook_deliveries_total: {
    type: "counter",
    labels: ["result"],
    help: "Finished attempts of webhook deliveries, by result.",
  },
  uis_webhook_attempt_duration_seconds: {
    type: "histogram",
    labels: ["answer"],
    help: "From the start of an attempt to the headers of the answer; answer is a class such as 2xx, or the reason why there was none.",
  },
  uis_webhook_lateness_seconds: {
    type: "histogram",
    labels: [],
    help: "From the due time of an attempt to its start.",
  },
  uis_webhook_backlog: {
    type: "gauge",
    labels: ["endpoint"],
    help: "Open deliveries to an endpoint, of all processes that share the store.",
    ofWorkers: "largest",
  },
  uis_webhook_oldest_seconds: {
    type: "gauge",
    labels: ["endpoint"],
    help: "Time since the oldest open delivery to an endpoint was due; 0 when none is.",
    ofWorkers: "largest",
  },
  uis_webhook_events_waiting: {
    type: "gauge",
    labels: [],
    help: "Events whose deliveries are not created yet, of all processes that share the store.",
    ofWorkers: "largest",
  },
  uis_webhook_events_oldest_seconds: {
    type: "gauge",
    labels: [],
    help: "Age of the oldest event whose deliveries are not created yet; 0 when none waits.",
    ofWorkers: "largest",
  },
  uis_webhook_in_flight: {
    type: "gauge",
    labels: [],
    help: "Attempts of this process that are in flight or not recorded yet.",
  },
  uis_webhook_endpoints_failing: {
    type: "gauge",
    labels: [],
    help: "Endpoints of this process with ten or more consecutive failures.",
    ofWorkers: "largest",
  },
  uis_event_loop_lag_seconds: {
    type: "gauge",
    labels: [],
    help: "Lag of the event loop since the last scrape, 99th percentile.",
    ofWorkers: "largest",
  },
  uis_build_info: {
    type: "gauge",
    labels: ["version", "node"],
    help: "Always 1; its labels are the versions that run.",
    ofWorkers: "largest",
  },
  gen_ai_server_request_duration_seconds: {
    type: "histogram",
    labels: [...perGenAiCall, "error_type"],
    help: "Duration of an inference call, as uis_request_duration_seconds, in OpenTelemetry's buckets.",
  },
  gen_ai_server_time_to_first_token_seconds: {
    type: "histogram",
    labels: perGenAiCall,
    help: "As uis_time_to_first_token_seconds, in OpenTelemetry's buckets.",
  },
  gen_ai_server_time_per_output_token_seconds: {
    type: "histogram",
    labels: perGenAiCall,
    help: "As uis_inter_token_latency_seconds, in OpenTelemetry's buckets.",
  },
} as const satisfies Record<string, MetricRow>;

export type MetricName = keyof typeof metricTable;

/** The row of a metric, as the type that all rows share. */
export function metricRow(name: MetricName): MetricRow {
  return metricTable[name];
}

export type Labels = Readonly<Record<string, string>>;

/** One line of the page of metrics. */
export interface Sample {
  /** Name in this line; absent: the name of the metric. */
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** One metric with its samples. */
export interface MetricData {
  readonly name: string;
  readonly help: string;
  readonly type: MetricRow["type"] | "summary";
  readonly values: readonly Sample[];
}

/** The samples of a histogram: one per bound with the cumulative count, then sum and count. */
export function histogramSamples(name: string, labels: Labels, buckets: Buckets, bounds: readonly number[]): Sample[] {
  const counts = buckets.upTo(bounds);
  const { count, sum } = buckets;
  const metricName = `${name}_bucket`;
  return [
    ...bounds.map((le, i) => ({ metricName, labels: { ...labels, le }, value: counts[i] ?? 0 })),
    { metricName, labels: { ...labels, le: "+Inf" }, value: count },
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}

/** Histograms of one metric; those with the same labels are added up. */
export function histogramsSamples(
  name: string,
  histograms: Iterable<{ readonly labels: Labels; readonly buckets: Buckets }>,
  bounds: readonly number[],
): Sample[] {
  const sums = new Map<string, { readonly labels: Labels; readonly buckets: Buckets }>();
  for (const { labels, buckets } of histograms) {
    const key = Object.values(labels).join("\n");
    const sum = sums.get(key) ?? { labels, buckets: buckets.empty() };
    sums.set(key, sum);
    sum.buckets.add(buckets);
  }
  return [...sums.values()].flatMap(({ labels, buckets }) => histogramSamples(name, labels, buckets, bounds));
}

/** One sample per name in the map, with the name as label. */
export function samplesBy(label: string, values: ReadonlyMap<string, number>): Sample[] {
  return [...values].map(([name, value]) => ({ labels: { [label]: name }, value }));
}

/** The one sample of a metric without labels. */
export function single(value: number): Sample[] {
  return [{ labels: {}, value }];
}

/** Returns the samples of a metric at the time of the call. */
export type Collect = (name: MetricName) => readonly Sample[] | Promise<readonly Sample[]>;
