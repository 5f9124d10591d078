import { type RateLimits, rateLimitMax } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";

const fields = [
  ["requestsPerMinute", "requests_per_minute"],
  ["tokensPerMinute", "tokens_per_minute"],
  ["concurrency", "concurrency"],
] as const;

/** Throws ServiceError naming the field at fault, as `limits.<field>`, unless every limit that is set is 1 or more. */
export function checkLimits(limits: RateLimits): RateLimits {
  for (const [field, name] of fields) checkLimit(limits[field], `limits.${name}`);
  return limits;
}

function checkLimit(value: number | null, param: string): void {
  if (value === null) return;
  if (!Number.isInteger(value) || value < 1) {
    throw new ServiceError("integer_below_min_value", `'${param}' must be a whole number of 1 or more, not ${value}.`, {
      param,
    });
  }
  if (value > rateLimitMax) {
    throw new ServiceError("integer_above_max_value", `'${param}' must be ${rateLimitMax} or less, not ${value}.`, {
      param,
    });
  }
}
