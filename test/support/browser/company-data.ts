/** Sample data of a company after a week of use, for screenshots and for pages with every part shown. */

const nanoPerMillion = (dollars: number): number => dollars * 1_000;

const answer =
  "A reverse proxy accepts requests on behalf of one or more servers. It terminates TLS, balances load across healthy " +
  "servers, and shields them from slow clients. Because every request passes through it, it is also the place for " +
  "logging, rate limits and caching. ";

/** Scripted models, so that they answer without delay on any machine. Prices are nano-dollars per token. */
export const companyModels = [
  {
    id: "qwen3-4b-instruct",
    owned_by: "qwen",
    engine: "scripted",
    slots: 4,
    context_length: 32_768,
    prices: { input: nanoPerMillion(0.1), output: nanoPerMillion(0.4) },
    scripted: { text: answer, tokens: 400, first_token_delay_ms: 120, token_delay_ms: 24 },
  },
  {
    id: "smollm2-1.7b-instruct",
    owned_by: "huggingface",
    engine: "scripted",
    slots: 8,
    context_length: 8_192,
    prices: { input: nanoPerMillion(0.02), output: nanoPerMillion(0.06) },
    scripted: { text: answer, tokens: 60, first_token_delay_ms: 40, token_delay_ms: 8 },
  },
  {
    id: "all-minilm-l6-v2",
    owned_by: "sentence-transformers",
    engine: "scripted",
    context_length: 512,
    prices: { input: nanoPerMillion(0.01) },
    scripted: { dimensions: 384 },
  },
];

const [assistant = "", summarizer = "", embedder = ""] = companyModels.map(({ id }) => id);

export { assistant, summarizer };

export const keptModel = "smollm2-135m-instruct";

/** A model at an upstream. */
export const gpuModel = "llama-3.3-70b-instruct";

/** Names of the keys that every test service has, the newest first. */
export const firstKeyNames = ["Grafana", "Laptop of Anna"];

/** Messages of CreateApiKey, with the time of each. */
export const companyKeys = [
  { daysAgo: 23, name: "Old mobile app", scope: "SCOPE_READ" },
  {
    daysAgo: 20,
    name: "Search index",
    scope: "SCOPE_READ",
    models: [embedder],
    limits: { tokensPerMinute: "2000000" },
  },
  { daysAgo: 17, name: "Nightly reports", scope: "SCOPE_READ_WRITE", models: [summarizer], limits: { concurrency: 4 } },
  {
    daysAgo: 12,
    name: "Support assistant",
    scope: "SCOPE_READ_WRITE",
    models: [assistant, summarizer],
    limits: { requestsPerMinute: "600", tokensPerMinute: "250000" },
  },
  { daysAgo: 2, name: "Data team notebook", scope: "SCOPE_READ_WRITE", account: "data" },
];

/** Daily usage of each key: requests, input tokens and output tokens. */
export const companyUse = [
  { key: "Support assistant", model: assistant, requests: 26, tokensIn: 1_450, tokensOut: 380 },
  { key: "Support assistant", model: summarizer, requests: 14, tokensIn: 900, tokensOut: 120 },
  { key: "Nightly reports", model: summarizer, requests: 18, tokensIn: 2_600, tokensOut: 210 },
  { key: "Search index", model: embedder, requests: 30, tokensIn: 480, tokensOut: 0 },
];

/** Usage of each day in percent of `companyUse`; the last day is today. */
export const companyDays = [84, 96, 112, 38, 27, 105, 90];

/** Messages of CreateWebhookEndpoint, with the time of each. Names in `.example` are reserved. */
export const companyEndpoints = [
  {
    daysAgo: 16,
    url: "https://pay.acme.example/uis",
    description: "Billing",
    events: ["request.completed", "request.failed"],
  },
  {
    daysAgo: 8,
    url: "https://ops.acme.example/uis",
    description: "On call",
    events: ["request.failed", "usage.threshold_reached"],
  },
];

/** Messages of CreateThreshold, with the time of each, by the name of the key that they apply to; null: the account. */
export const companyThresholds = [
  {
    daysAgo: 11,
    key: null,
    metric: "METRIC_TOKENS",
    period: "PERIOD_MONTH",
    limit: "1000000",
    action: "ACTION_NOTIFY",
  },
  {
    daysAgo: 11,
    key: "Support assistant",
    metric: "METRIC_REQUESTS",
    period: "PERIOD_MONTH",
    limit: "260",
    action: "ACTION_REFUSE",
  },
];
