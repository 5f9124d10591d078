import type { RateLimits } from "../call/rate-limits.js";
import type { ApiKeyRecord, KeyChange } from "./key-store.js";

/** What the audit says of a new key. */
export function keyDetails(record: ApiKeyRecord): Record<string, string> {
  return { account: record.account, scope: record.scope, ...changeDetails(record) };
}

/** What the audit says of a changed key: the new values of what was changed. */
export function changeDetails({ name, models, limits, expiresAtMs }: KeyChange): Record<string, string> {
  return {
    ...(name === undefined ? {} : { name }),
    ...(models === undefined ? {} : { models: models.length === 0 ? "all" : models.join(",") }),
    ...(limits === undefined ? {} : limitDetails(limits)),
    ...(expiresAtMs === undefined ? {} : { expires_at: expiresAtMs === null ? "never" : isoTime(expiresAtMs) }),
  };
}

/** What the audit says of limits; those that are not set are `default`. */
function limitDetails({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): Record<string, string> {
  return {
    requests_per_minute: String(requestsPerMinute ?? "default"),
    tokens_per_minute: String(tokensPerMinute ?? "default"),
    concurrency: String(concurrency ?? "default"),
  };
}

function isoTime(atMs: number): string {
  return new Date(atMs).toISOString();
}
