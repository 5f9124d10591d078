import type { RunningService, StartOptions } from "../../support/start-service.js";

/** URLs and keys of the service under test. */
export interface Target {
  readonly api: string;
  /** Scope read_write. */
  readonly key: string;
  /** Scope read. */
  readonly readKey: string;
}

export function targetOf({ api, key, readKey }: RunningService): Target {
  return { api, key, readKey };
}

export const sayings = {
  chat: "Paris is the capital of France.",
  json: '{"city": "Oslo", "mild": true}',
  afterTools: "It is mild in Oslo.",
} as const;

const scripted = (id: string, options: object, settings: object = {}) => ({
  id,
  engine: "scripted",
  scripted: options,
  ...settings,
});

const weatherCall = { name: "weather", arguments: { city: "Oslo" } };

/** The models of the SDK tests. Models that fail a number of times need a separate service for each test. */
export const sdkModels: readonly object[] = [
  scripted("org/chat:tag", { text: sayings.chat }),
  scripted("json", { text: sayings.json }),
  scripted("tools", { tool_calls: [weatherCall, { name: "clock" }] }),
  // Calls the tool, and writes the text after its result.
  scripted("agent", { text: sayings.afterTools, tool_call: weatherCall }),
  scripted("endless", { text: "on and", tokens: 1_000_000, token_delay_ms: 5 }),
  scripted("one-slot", { text: "Holding on", hang_after_tokens: 1 }, { slots: 1, queue_max: 0 }),
  scripted("fails-once", { text: sayings.chat, fail: { code: "internal_error", times: 1 } }),
  scripted("fails-always", { fail: { code: "upstream_error" } }),
  scripted("dies-late", { text: sayings.chat, fail: { after_tokens: 2, code: "upstream_error" } }),
  scripted("vectors", { dimensions: 8 }),
  scripted("ranks", { rerank: true }),
];

/** Configuration of a service with these models and a small body limit. */
export const sdkService: StartOptions = { config: { models: sdkModels, limits: { body_bytes_max: "64KiB" } } };
