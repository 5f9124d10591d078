import * as z from "zod";

/** The output of `--json`, field by field: an additional or missing field is an error. */

const time = z.iso.datetime();
const timeOrNull = time.nullable();
const text = z.string();
const whole = z.number().int().nonnegative();
const wholeOrNull = whole.nullable();

const limits = z.strictObject({
  requests_per_minute: wholeOrNull,
  tokens_per_minute: wholeOrNull,
  concurrency: wholeOrNull,
});

export const key = z.strictObject({
  id: z.string().startsWith("key_"),
  name: text,
  account: text,
  scope: z.enum(["read", "read_write"]),
  prefix: text,
  last4: z.string().length(4),
  models: z.array(text),
  limits,
  created_at: time,
  expires_at: timeOrNull,
  revoked_at: timeOrNull,
  last_used_at: timeOrNull,
  priority: z.enum(["interactive", "default", "batch"]),
});
export const newKey = key.extend({ secret: z.string().startsWith("sk-uis-") });

export const limitReport = z.strictObject({
  owner: z.strictObject({ account: text.nullable(), model: text.nullable(), api_key_id: text.nullable() }),
  account: text,
  own: limits,
  configured: limits,
  effective: limits,
  use: z.strictObject({ requests: whole, tokens: whole, running: whole }),
  updated_at: timeOrNull,
});

export const threshold = z.strictObject({
  id: z.string().startsWith("thr_"),
  account: text,
  api_key_id: text.nullable(),
  metric: z.enum(["METRIC_TOKENS", "METRIC_REQUESTS", "METRIC_COST"]),
  period: z.enum(["PERIOD_DAY", "PERIOD_MONTH"]),
  limit: whole,
  percents: z.array(whole),
  action: z.enum(["ACTION_NOTIFY", "ACTION_REFUSE"]),
  used: whole,
  created_at: time,
});

export const usageRow = z.strictObject({
  day: z.iso.date(),
  model: text.nullable(),
  api_key_id: text.nullable(),
  operation: text.nullable(),
  requests: whole,
  prompt_tokens: whole,
  completion_tokens: whole,
  cached_tokens: whole,
  cost_nano_dollars: whole,
});

export const requestLog = z.strictObject({
  id: z.string().regex(/^req_/),
  account: text,
  api_key_id: text.nullable(),
  operation: z.enum(["chat", "completions", "embeddings", "rerank"]),
  protocol: text,
  model: text.nullable(),
  fallback_model: text.nullable(),
  code: text,
  is_stream: z.boolean(),
  received_at: z.iso.datetime(),
  duration_ms: z.number(),
  admit_ms: z.number(),
  queue_ms: z.number(),
  first_token_ms: z.number().nullable(),
  prompt_tokens: whole,
  completion_tokens: whole,
  cached_tokens: whole,
  cost_nano_dollars: whole,
  attempts: whole,
  tries: z.array(
    z.strictObject({ deployment: text, model: text, began_ms: z.number(), duration_ms: z.number(), code: text }),
  ),
  address: text,
  client_request_id: text.nullable(),
  trace_id: text.nullable(),
  labels: z.record(z.string(), z.string()),
  content: z.null(),
});

export const runningModel = z.strictObject({
  id: text,
  state: z.enum(["ready", "loading", "unloaded", "failed"]),
  memory_bytes: whole,
  running: whole,
  waiting: whole,
  slots: whole,
  produced_tokens: whole,
  restarts: whole,
  problem: text.nullable(),
});

export const endpoint = z.strictObject({
  id: z.string().startsWith("we_"),
  object: z.literal("webhook_endpoint"),
  account: text,
  url: z.url(),
  events: z.array(text),
  description: text,
  status: z.enum(["enabled", "disabled"]),
  disabled_reason: text.nullable(),
  max_in_flight: whole,
  secret_hint: text,
  previous_secret_expires_at: timeOrNull,
  last_success_at: timeOrNull,
  last_failure_at: timeOrNull,
  failing_since: timeOrNull,
  failures_in_row: whole,
  created_at: time,
  updated_at: time,
});
export const newEndpoint = endpoint.extend({ secret: z.string().startsWith("whsec_") });

const attempt = z.strictObject({
  number: whole,
  trigger: z.enum(["schedule", "manual", "replay"]),
  by: text.nullable(),
  started_at: time,
  latency_ms: whole,
  status: wholeOrNull,
  error: text.nullable(),
  ip: text.nullable(),
  retry_after: text.nullable(),
  next_attempt_at: timeOrNull,
});
const header = z.strictObject({ name: text, value: text });
const answeredAttempt = attempt.extend({ response: text.nullable(), headers: z.array(header) });

export const listedDelivery = z.strictObject({
  id: z.string().startsWith("dlv_"),
  account: text,
  event_id: z.string().startsWith("evt_"),
  event_type: text,
  endpoint_id: z.string().startsWith("we_"),
  state: z.enum(["pending", "delivery_attempted", "awaiting_retry", "delivered", "permanently_failed"]),
  reason: text.nullable(),
  attempts_made: whole,
  next_attempt_at: timeOrNull,
  created_at: time,
  attempts: z.array(attempt),
  purged: z.boolean(),
  replay_id: text.nullable(),
});
export const delivery = listedDelivery.extend({ attempts: z.array(answeredAttempt) });

export const model = z.strictObject({
  id: text,
  kind: z.enum(["chat", "embedding"]),
  bytes: whole,
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  source: text,
  context_length: whole,
  license: text.nullable(),
  added_at: time,
  loaded: z.boolean(),
});
export const foundModel = z.strictObject({
  source: text,
  kind: z.enum(["chat", "embedding"]).nullable(),
  quantizations: z.array(text),
  approximate_bytes: wholeOrNull,
  downloads: wholeOrNull,
  likes: wholeOrNull,
  license: text.nullable(),
  gated: z.boolean(),
});
export const pull = z.strictObject({
  id: text,
  source: text.nullable(),
  state: z.enum(["downloading", "loading", "succeeded", "failed", "cancelled"]),
  received_bytes: whole,
  total_bytes: wholeOrNull,
  bytes_per_second: wholeOrNull,
  started_at: time,
  ended_at: time.nullable(),
  problem: text.nullable(),
});
/** A model that is served, stored or both; fields of a part that does not apply are null. */
export const listedModel = z.strictObject({
  id: text,
  object: z.literal("model"),
  created: wholeOrNull,
  owned_by: text.nullable(),
  context_length: whole,
  capabilities: z.array(z.enum(["chat", "completions", "embeddings"])),
  dimensions: whole.optional(),
  tool_calling: text.optional(),
  kind: z.enum(["chat", "embedding"]).nullable(),
  bytes: wholeOrNull,
  sha256: model.shape.sha256.nullable(),
  source: text.nullable(),
  license: text.nullable(),
  added_at: timeOrNull,
  loaded: z.boolean(),
});
export const inspectedModel = model.extend({
  path: text,
  architecture: text,
  name: text.nullable(),
  embedding_length: whole,
  tokenizer: text,
  tensor_count: whole,
  parameter_count: whole,
  file_type: text.nullable(),
  chat_template: text.nullable(),
});

export const deployment = z.strictObject({
  id: text,
  model: text,
  upstream_model: text,
  state: z.enum(["ready", "loading", "ejected", "cooling", "draining"]),
  reason: text.nullable(),
  until: text.nullable(),
  outstanding_requests: whole,
  outstanding_tokens: whole,
  weight: whole,
  priority: whole,
  slots: whole,
});
export const upstream = z.strictObject({
  name: text,
  kind: text,
  url: z.url(),
  models: z.array(text),
  native: z.array(z.enum(["responses", "messages"])),
  discovers_models: z.boolean(),
  source: z.enum(["config", "stored"]),
  hides_stored: z.boolean(),
  key_count: whole,
  key_hint: text.nullable(),
  header_names: z.array(text),
  problem: text.nullable(),
  deployments: z.array(deployment),
});
export const checkedUpstream = z.strictObject({
  url: z.url(),
  kind: text,
  version: text.nullable(),
  models: z.array(z.strictObject({ id: text, capabilities: z.array(text), context_length: wholeOrNull })).min(1),
  latency_ms: whole,
  config: text,
});

export const ready = z.strictObject({
  event: z.literal("ready"),
  version: text,
  api: z.url(),
  grpc: text,
  ops: z.url(),
  dashboard: z.url(),
  api_key: z.strictObject({ id: text, name: text, scope: text, secret: text }).nullable(),
  models: z.array(text),
  data_dir: text,
  state: z.enum(["embedded", "redis", "volatile"]),
});

export const check = z.strictObject({
  check: text,
  status: z.enum(["ok", "warn", "fail"]),
  detail: text,
  fix: text.nullable(),
});

export const receivedDelivery = z.strictObject({
  received_at: time,
  delivery_id: text.nullable(),
  attempt: wholeOrNull,
  event_id: text.nullable(),
  event_type: text.nullable(),
  valid: z.boolean().nullable(),
  reason: text.nullable(),
  body: text,
});
