import * as z from "zod";
import { fixedLimits } from "../../contract/limits.js";
import { modelIdForm, modelIdWords } from "../../contract/model-id.js";
import { type RateLimitDefaults, type RateLimits, rateLimitMax } from "../../domain/call/rate-limits.js";
import { wholeNumber } from "./setting-types.js";

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
