import * as z from "zod";
import { defaultLimits, fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { modelIdForm, modelIdWords } from "../../contract/model-id.js";
import { type RateLimitDefaults, type RateLimits, rateLimitMax } from "../../domain/call/rate-limits.js";
import { duration, formatDuration, formatSize, size, wholeNumber } from "./setting-types.js";

interface Row {
  readonly kind: "time" | "size" | "count";
  readonly min: number;
  readonly max: number;
  readonly means: string;
  /** A change waits for a restart: a listener is told it once. */
  readonly isFixed?: true;
}

const KiB = 1024;
const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
const minute = 60_000;
const hour = 60 * minute;

const time = (min: number, max: number, means: string): Row => ({ kind: "time", min, max, means });
const bytes = (min: number, max: number, means: string): Row => ({ kind: "size", min, max, means });
const count = (min: number, max: number, means: string): Row => ({ kind: "count", min, max, means });

const fixed = (row: Row): Row => ({ ...row, isFixed: true });

/** One row per limit: its range and what it bounds. The defaults are those of the contract. */
const rows: Readonly<Record<keyof ServiceLimits, Row>> = {
  headerBytesMax: fixed(bytes(KiB, MiB, "Header block of an HTTP/1.1 request.")),
  headerLinesMax: count(10, 2000, "Header lines of an HTTP/1.1 request."),
  http2HeaderBytesMax: bytes(KiB, MiB, "Header list of an HTTP/2 request."),
  urlBytesMax: bytes(256, 64 * KiB, "Path and query of a request."),
  bodyBytesMax: bytes(KiB, GiB, "One request body or message, on every door."),
  bodiesBytesMax: bytes(
    KiB,
    64 * GiB,
    "All request bodies that are being received at the same time, on every protocol. One connection may hold a quarter of it, one account a half.",
  ),
  jsonDepthMax: count(4, 1000, "Nesting of a JSON body."),
  jsonTokensMax: count(100, 100_000_000, "Values, keys and brackets of a JSON body together."),
  headersTimeoutMs: fixed(time(10, hour, "From the first byte of a request to the end of its headers.")),
  requestTimeoutMs: fixed(time(10, 24 * hour, "From the first byte of a request to the end of its body.")),
  bodyRateMin: bytes(0, GiB, "Bytes per second that a body must bring after the grace time."),
  bodyRateGraceMs: time(10, hour, "How long a body may be slower than that."),
  keepAliveTimeoutMs: fixed(time(10, hour, "How long an idle connection is kept.")),
  sseKeepAliveMs: time(10, hour, "Silence on an event stream after which a keep-alive is sent."),
  stallMs: time(10, hour, "How long a reader may refuse to read before its request is ended."),
  streamBufferBytesMax: bytes(KiB, GiB, "What is kept for a reader that is slower than the engine."),
  grpcStreamsMax: fixed(count(1, 1_000_000, "Streams per HTTP/2 connection.")),
  nMax: count(1, 1024, "Choices per prompt."),
  choicesMax: count(1, 8192, "Choices of one request: prompts times n."),
  stopMax: count(1, 128, "Stop texts of a request."),
  stopCharsMax: count(1, 64 * KiB, "Length of one stop text."),
  toolsMax: count(1, 4096, "Tools of a request."),
  schemaCharsMax: count(100, 16 * MiB, "JSON Schemas of all tools together; also the schema of a response format."),
  embeddingInputsMax: count(1, 1_000_000, "Inputs of one embeddings request."),
  embeddingTokensMax: count(1, 1_000_000_000, "Tokens of all inputs of one embeddings request."),
  queueWaitMs: time(0, hour, "Waiting for a slot, loading included."),
  deadlineMs: time(10, 24 * hour, "A whole request, whatever the client asks for."),
  commitMs: time(0, hour, "From the granted slot to the moment when the status is sent without having seen content."),
  drainMs: time(0, 24 * hour, "How long running requests may finish after the service was told to stop."),
};

const limitNames = Object.keys(rows) as (keyof ServiceLimits)[];

/** Limits that can change while the service runs; the others are told to a listener once. */
export const liveLimitNames: readonly (keyof ServiceLimits)[] = limitNames.filter((name) => !rows[name].isFixed);

/** `bodyBytesMax` is set as `body_bytes_max`, `stallMs` as `stall`: a time carries its unit in the value. */
export function limitSettingName(name: keyof ServiceLimits): string {
  const plain = rows[name].kind === "time" ? name.replace(/Ms$/, "") : name;
  return plain.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function limitSetting(name: keyof ServiceLimits): z.ZodType<number, unknown> {
  const { kind, min, max, isFixed } = rows[name];
  const means = isFixed ? `${rows[name].means} A change waits for a restart.` : rows[name].means;
  const preset = defaultLimits[name];
  switch (kind) {
    case "time":
      return duration(min, max)
        .prefault(formatDuration(preset))
        .describe(`${means} ${formatDuration(min)} to ${formatDuration(max)}.`);
    case "size":
      return size(min, max)
        .prefault(formatSize(preset))
        .describe(`${means} ${formatSize(min)} to ${formatSize(max)}.`);
    case "count":
      return wholeNumber(min, max).prefault(preset).describe(means);
  }
}

/** `limits:` of the configuration. */
export const limitsSettings = z.strictObject(
  Object.fromEntries(limitNames.map((name) => [limitSettingName(name), limitSetting(name)])),
);

/** The table that the rest of the program uses. */
export function toServiceLimits(settings: z.output<typeof limitsSettings>): ServiceLimits {
  const entries = limitNames.map((name) => [name, settings[limitSettingName(name)] ?? defaultLimits[name]] as const);
  return Object.fromEntries(entries) as Record<keyof ServiceLimits, number>;
}

function limit(max: number, means: string) {
  return wholeNumber(1, max).nullable().prefault(null).describe(`${means}. Null: unlimited.`);
}

const limits = z.strictObject({
  requests_per_minute: limit(rateLimitMax, "Requests in any 60 seconds"),
  tokens_per_minute: limit(rateLimitMax, "Tokens of prompt and answer in any 60 seconds"),
  concurrency: limit(fixedLimits.int32Max, "Requests that run at the same time"),
});

const modelId = z.string().regex(modelIdForm, { error: `must be a model id: ${modelIdWords}` });

/** `rate_limits:` of the configuration. */
export const rateLimitSettings = z.strictObject({
  default_key: limits.prefault({}),
  default_account: limits.prefault({}),
  models: z
    .record(modelId, limits, { error: "must be limits by model id" })
    .prefault({})
    .describe(
      "Limits by model id, for each account by itself. Each has requests_per_minute, tokens_per_minute and concurrency.",
    ),
});

/** The defaults as the rest of the program has them. */
export function toRateLimitDefaults(settings: z.output<typeof rateLimitSettings>): RateLimitDefaults {
  const models = Object.entries(settings.models).map(([id, model]) => [id, toRateLimits(model)] as const);
  return {
    key: toRateLimits(settings.default_key),
    account: toRateLimits(settings.default_account),
    models: new Map(models),
  };
}

function toRateLimits(settings: z.output<typeof limits>): RateLimits {
  return {
    requestsPerMinute: settings.requests_per_minute,
    tokensPerMinute: settings.tokens_per_minute,
    concurrency: settings.concurrency,
  };
}
