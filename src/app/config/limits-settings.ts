import * as z from "zod";
import { defaultLimits, fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { modelIdForm, modelIdWords } from "../../contract/names.js";
import { type RateLimitDefaults, type RateLimits, rateLimitMax } from "../../domain/call/rate-limits.js";
import { duration, formatDuration, formatSize, size, wholeNumber } from "./setting-types.js";

interface Row {
  readonly kind: "time" | "size" | "count";
  readonly min: number;
  readonly max: number;
  readonly description: string;
  /** A change needs a restart, because a listener receives the value once. */
  readonly isFixed?: true;
}

const KiB = 1024;
const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
const minute = 60_000;
const hour = 60 * minute;

const time = (min: number, max: number, description: string): Row => ({ kind: "time", min, max, description });
const bytes = (min: number, max: number, description: string): Row => ({ kind: "size", min, max, description });
const count = (min: number, max: number, description: string): Row => ({ kind: "count", min, max, description });
const fixed = (row: Row): Row => ({ ...row, isFixed: true });

/** Limits that no operator needs to change: constants of the contract, not settings. */
const constants = [
  "headerLinesMax",
  "http2HeaderBytesMax",
  "urlBytesMax",
  "jsonDepthMax",
  "jsonTokensMax",
  "choicesMax",
  "stopMax",
  "stopCharsMax",
  "toolsMax",
  "schemaCharsMax",
  "embeddingTokensMax",
] as const satisfies readonly (keyof ServiceLimits)[];

type SettableLimit = Exclude<keyof ServiceLimits, (typeof constants)[number]>;

/** One row per setting. The defaults are those of the contract. */
const rows: Readonly<Record<SettableLimit, Row>> = {
  headerBytesMax: fixed(bytes(KiB, MiB, "Maximum size of the header block of an HTTP/1.1 request.")),
  bodyBytesMax: bytes(
    KiB,
    GiB,
    "Maximum size of one request body or message, on every protocol. It is 16KiB for RPCs about sessions, health and " +
      "reflection.",
  ),
  bodiesBytesMax: bytes(
    KiB,
    64 * GiB,
    "Maximum size of all request bodies that are being received. One connection may use a quarter of it, one account " +
      "half.",
  ),
  headersTimeoutMs: time(10, hour, "Maximum time from the first byte of a request to the end of its headers."),
  requestTimeoutMs: time(10, 24 * hour, "Maximum time from the first byte of a request to the end of its body."),
  bodyRateMin: bytes(0, GiB, "Minimum bytes per second of a request body, on average over `limits.body_rate_grace`."),
  bodyRateGraceMs: time(10, hour, "How long a request body may be slower than `limits.body_rate_min`."),
  keepAliveTimeoutMs: time(10, hour, "Time after which an idle connection is closed."),
  sseKeepAliveMs: time(10, hour, "Time without an event on a stream after which a keep-alive is sent."),
  stallMs: time(10, hour, "How long a client may stop reading before its request is aborted."),
  streamBufferBytesMax: bytes(
    KiB,
    GiB,
    "Maximum size of the buffer for a client that reads more slowly than the engine generates. It is less while many " +
      "clients are slow: their buffers share 16MiB.",
  ),
  grpcStreamsMax: fixed(count(1, 1_000_000, "Maximum streams of one HTTP/2 connection.")),
  nMax: count(1, 1024, "Maximum choices (`n`) per prompt."),
  embeddingInputsMax: count(1, 1_000_000, "Maximum inputs of one embeddings request."),
  queueWaitMs: time(0, hour, "Maximum wait for a slot, including the time to load the model."),
  deadlineMs: time(10, 24 * hour, "Maximum time of a whole request; clients may set a shorter one."),
  commitMs: time(
    0,
    hour,
    "Time from the slot of a streamed request until its response status is sent, if it has no content earlier.",
  ),
  drainMs: time(
    0,
    24 * hour,
    "How long running requests may continue after a stopping service has begun to reject new ones.",
  ),
};

const limitNames = Object.keys(rows) as SettableLimit[];

/** Limits that can change while the service runs. */
export const liveLimitNames: readonly SettableLimit[] = limitNames.filter((name) => !rows[name].isFixed);

/** `body_bytes_max` for `bodyBytesMax`, `stall` for `stallMs`: a time has its unit in the value. */
export function limitSettingName(name: keyof ServiceLimits): string {
  return name.replace(/Ms$/, "").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Former settings of `limits:` that are constants now, with their values. */
export const constantLimits: ReadonlyMap<string, string> = new Map(
  constants.map((name) => {
    const value = defaultLimits[name];
    return [limitSettingName(name), name.includes("Bytes") ? String(formatSize(value)) : String(value)];
  }),
);

function limitSetting(name: SettableLimit): z.ZodType<number, unknown> {
  const { kind, min, max, description, isFixed } = rows[name];
  const text = isFixed ? `${description} A change needs a restart.` : description;
  const preset = defaultLimits[name];
  if (kind === "count") return wholeNumber(min, max).prefault(preset).describe(text);
  const format = kind === "time" ? formatDuration : formatSize;
  const range = `${text} ${format(min)} to ${format(max)}.`;
  if (kind === "time") return duration(min, max).prefault(formatDuration(preset)).describe(range);
  return size(min, max).prefault(formatSize(preset)).describe(range);
}

/** `limits:` of the configuration. */
export const limitsSettings = z.strictObject(
  Object.fromEntries(limitNames.map((name) => [limitSettingName(name), limitSetting(name)])),
);

/** The limits in the form that the rest of the program uses. */
export function toServiceLimits(settings: z.output<typeof limitsSettings>): ServiceLimits {
  const entries = limitNames.map((name) => [name, settings[limitSettingName(name)] ?? defaultLimits[name]] as const);
  return { ...defaultLimits, ...Object.fromEntries(entries) };
}

function limit(max: number, means: string) {
  return wholeNumber(1, max).nullable().prefault(null).describe(`${means}. Null: unlimited.`);
}

const limits = z.strictObject({
  requests_per_minute: limit(rateLimitMax, "Maximum requests in any 60 seconds"),
  tokens_per_minute: limit(rateLimitMax, "Maximum tokens of prompts and answers in any 60 seconds"),
  concurrency: limit(fixedLimits.int32Max, "Maximum requests that run at the same time"),
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
      "Limits of each account for one model, by model id. Each entry has requests_per_minute, tokens_per_minute and " +
        "concurrency.",
    ),
});

/** The default rate limits in the form that the rest of the program uses. */
export function toRateLimitDefaults(settings: z.output<typeof rateLimitSettings>): RateLimitDefaults {
  const models = new Map(Object.entries(settings.models).map(([id, model]) => [id, toRateLimits(model)]));
  return { key: toRateLimits(settings.default_key), account: toRateLimits(settings.default_account), models };
}

function toRateLimits(settings: z.output<typeof limits>): RateLimits {
  return {
    requestsPerMinute: settings.requests_per_minute,
    tokensPerMinute: settings.tokens_per_minute,
    concurrency: settings.concurrency,
  };
}
