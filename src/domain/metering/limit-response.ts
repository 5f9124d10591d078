import { headers } from "../../contract/headers.js";
import type { LimitOwner, LimitSnapshot } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { BudgetRefusal, LimitRefusal } from "./ledger.js";

/** State of the caller's limits, sent with answers and errors. */
interface LimitStatus {
  readonly limits?: LimitSnapshot | undefined;
  /** Decided without the shared store. */
  readonly degraded: boolean;
}

const none: Readonly<Record<string, string>> = Object.freeze({});

/** Rate-limit headers or metadata: integers and Go durations, none for a dimension without a limit (wire RL-1). */
export function limitHeaders({ limits, degraded }: LimitStatus): Readonly<Record<string, string>> {
  if (limits === undefined && !degraded) return none;
  const fields: Record<string, string> = {};
  if (limits?.requests !== undefined) {
    const { limit, remaining, resetMs } = limits.requests;
    fields[headers.limitRequests] = String(limit);
    fields[headers.remainingRequests] = String(remaining);
    fields[headers.resetRequests] = goDuration(Math.ceil(resetMs));
  }
  if (limits?.tokens !== undefined) {
    const { limit, remaining, resetMs } = limits.tokens;
    fields[headers.limitTokens] = String(limit);
    fields[headers.remainingTokens] = String(remaining);
    fields[headers.resetTokens] = goDuration(Math.ceil(resetMs));
  }
  if (degraded) fields[headers.limitsDegraded] = "1";
  return fields;
}

/** Error for a request rejected by a rate limit or budget (state RL-8, state RL-9, state RL-10; USE-7). */
export function errorOfRefusal(rejection: {
  readonly refusal: LimitRefusal | BudgetRefusal;
  readonly snapshot?: LimitSnapshot | undefined;
  readonly degraded: boolean;
}): ServiceError {
  const { refusal, snapshot, degraded } = rejection;
  const status = { limits: snapshot, degraded };
  return refusal.which === "budget" ? errorOfBudget(refusal, status) : errorOfLimit(refusal, status);
}

function errorOfLimit(refusal: LimitRefusal, status: LimitStatus): ServiceError {
  const { which, owner, limit, used, requested, retryAfterMs } = refusal;
  const figures = `limit ${limit}, used ${used}, requested ${requested}`;
  const type = which === "tokens" ? "tokens" : "requests";
  if (retryAfterMs === null) {
    const advice =
      which === "tokens"
        ? "Shorten the prompt, or ask for fewer tokens with max_tokens."
        : "This request can never pass this limit.";
    const message = `Request too large for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. ${advice}`;
    return new ServiceError("rate_limit_exceeded", message, { ...status, type, shouldRetry: false });
  }
  const wait = goDuration(Math.max(1, Math.ceil(retryAfterMs)));
  const message = `Rate limit reached for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. Try again in ${wait}.`;
  return new ServiceError("rate_limit_exceeded", message, { ...status, type, retryAfterMs });
}

const nameOf = {
  requests: "requests per minute",
  tokens: "tokens per minute",
  concurrency: "concurrent requests",
} as const;

function ownerWords({ kind, id }: LimitOwner): string {
  switch (kind) {
    case "key":
      return "this API key";
    case "account":
      return `the account '${id}'`;
    case "model":
      return `the model '${id}' in this account`;
  }
}

function errorOfBudget(refusal: BudgetRefusal, status: LimitStatus): ServiceError {
  const { thresholdId, metric, limit, used, requested, resetsAtMs } = refusal;
  const unit = metric === "cost" ? "nano-dollars" : metric;
  return new ServiceError(
    "insufficient_quota",
    `The budget ${thresholdId} has no room: limit ${limit} ${unit}, used ${used}, requested ${requested}. ` +
      `It begins anew at ${new Date(resetsAtMs).toISOString()}; an administrator can raise it.`,
    status,
  );
}

/**
 * Whole milliseconds as Go writes a duration: `12ms`, `7.66s`, `6m0s`, `1h0m0s`. Lower units follow a higher one even if
 * they are zero; fractions of a second have no trailing zeros.
 */
export function goDuration(ms: number): string {
  if (ms < 1_000) return ms === 0 ? "0s" : `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms % 60_000) / 1_000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
