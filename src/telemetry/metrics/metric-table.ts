/**
 * Every metric of ours by its name: what is counted, and by which labels. `docs/metrics.md` is written from it, and a
 * test compares what a running service shows. Names of OpenTelemetry's conventions for generative AI, which still change,
 * stand here and in `gen-ai-names.ts` only.
 */

export interface MetricRow {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** One sentence. Also the text after `# HELP`. */
  readonly help: string;
}

const perCall = ["route", "model"] as const;
const perGenAiCall = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const;

export const metricTable = {
  uis_requests_total: {
    type: "counter",
    labels: [...perCall, "code"],
    help: "Calls that ended, refused ones included; code is ok or the code of the error.",
  },
  uis_request_duration_seconds: {
    type: "histogram",
    labels: perCall,
    help: "From the headers of a call to its end, the time that a client needs to send and read included.",
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
    help: "How long a call waited for a slot of its model; calls that got one only.",
  },
  uis_overhead_seconds: {
    type: "histogram",
    labels: perCall,
    help: "Duration of a call less its wait for a slot and the time of the engine.",
  },
  uis_requests_running: { type: "gauge", labels: ["model"], help: "Slots of a model that are taken." },
  uis_requests_waiting: { type: "gauge", labels: ["model"], help: "Calls that wait for a slot of a model." },
  uis_rejections_total: {
    type: "counter",
    labels: ["reason"],
    help: "Calls turned away for who sent them, for a limit or for load; reason is the code of the error.",
  },
  uis_ratelimit_hits_total: {
    type: "counter",
    labels: ["limit"],
    help: "Requests refused by a limit: requests, tokens, concurrency or budget.",
  },
  uis_tokens_total: {
    type: "counter",
    labels: ["model", "type"],
    help: "Tokens: prompt and completion; of these, cached ones of prompts and reasoning ones of completions.",
  },
  uis_client_cancelled_total: {
    type: "counter",
    labels: ["stage"],
    help: "Calls whose client left before their end, by where they stood.",
  },
  uis_engine_restarts_total: {
    type: "counter",
    labels: ["model"],
    help: "How often the engine process of a model was started again.",
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
    help: "Of those, settlements that no disk could take: a crash loses them; must stay 0.",
  },
  uis_usage_spool_oldest_seconds: {
    type: "gauge",
    labels: [],
    help: "Age of the oldest settlement that waits for the store; 0 when none waits.",
  },
  uis_store_up: { type: "gauge", labels: [], help: "1 when the store answers and can be written." },
  uis_limits_degraded: {
    type: "gauge",
    labels: [],
    help: "1 while this process decides limits without the shared store.",
  },
  uis_audit_records_lost_total: {
    type: "counter",
    labels: [],
    help: "Records of administrative acts that could not be written.",
  },
  uis_webhook_deliveries_total: {
    type: "counter",
    labels: ["result"],
    help: "Attempts of webhook deliveries that ended, by what became of them.",
  },
  uis_webhook_attempt_duration_seconds: {
    type: "histogram",
    labels: ["answer"],
    help: "From the begin of an attempt to the headers of the answer; answer is 2xx and its like, or why there was none.",
  },
  uis_webhook_lateness_seconds: {
    type: "histogram",
    labels: [],
    help: "From the instant at which an attempt was due to its begin.",
  },
  uis_webhook_backlog: {
    type: "gauge",
    labels: ["endpoint"],
    help: "Deliveries to an endpoint that are not at an end, of all processes that share the store.",
  },
  uis_webhook_oldest_seconds: {
    type: "gauge",
    labels: ["endpoint"],
    help: "How long the delivery to an endpoint that has waited longest has been due; 0 when none is.",
  },
  uis_webhook_in_flight: { type: "gauge", labels: [], help: "Attempts that this process has under way." },
  uis_webhook_endpoints_failing: {
    type: "gauge",
    labels: [],
    help: "Endpoints with ten failures or more in a row, of those that this process sends to.",
  },
  uis_event_loop_lag_seconds: {
    type: "gauge",
    labels: [],
    help: "Lag of the event loop since the last scrape, 99th percentile.",
  },
  uis_build_info: { type: "gauge", labels: ["version", "node"], help: "Always 1; its labels say what runs." },
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
