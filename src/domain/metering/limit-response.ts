import { headers } from "../../contract/headers.js";
import type { AnswerHead } from "../call/call-context.js";
import type { LimitOwner, LimitSnapshot } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { Admitted, BudgetRefusal, LimitRefusal, Refused } from "./ledger.js";

/** State of the caller's limits, sent with answers and errors. */
export interface LimitNews {
  readonly limits?: LimitSnapshot | undefined;
  /** Decided without the shared store. */
  readonly degraded: boolean;
}

/** Metadata of an answer: how it ran and the limits at its admission. */
export function answerHead(
  { deployment, attempts, queueMs }: Pick<AnswerHead, "deployment" | "attempts" | "queueMs">,
  { snapshot, degraded }: Admitted,
): AnswerHead {
  const head = { deployment, attempts, queueMs, degraded };
  return snapshot === undefined ? head : { ...head, limits: snapshot };
}

const none: Readonly<Record<string, string>> = Object.freeze({});

/**
 * Rate-limit headers or metadata (wire RL-1): plain integers, and the time until the window is unused. A dimension
 * without a limit has none.
 */
export function limitHeaders({ limits, degraded }: LimitNews): Readonly<Record<string, string>> {
  if (limits === undefined && !degraded) return none;
  const said: Record<string, string> = {};
  if (limits?.requests !== undefined) {
    const { limit, remaining, resetMs } = limits.requests;
    said[headers.limitRequests] = String(limit);
    said[headers.remainingRequests] = String(remaining);
    said[headers.resetRequests] = goDuration(Math.ceil(resetMs));
  }
  if (limits?.tokens !== undefined) {
    const { limit, remaining, resetMs } = limits.tokens;
    said[headers.limitTokens] = String(limit);
    said[headers.remainingTokens] = String(remaining);
    said[headers.resetTokens] = goDuration(Math.ceil(resetMs));
  }
  if (degraded) said[headers.limitsDegraded] = "1";
  return said;
}

/** Error for a request rejected by a rate limit or budget (state RL-8, state RL-9, state RL-10; USE-7). */
export function errorOfRefusal({ refusal, snapshot, degraded }: Omit<Refused, "admitted">): ServiceError {
  const news = { limits: snapshot, degraded };
  return refusal.which === "budget" ? errorOfBudget(refusal, news) : errorOfLimit(refusal, news);
}

interface News {
  readonly limits: LimitSnapshot | undefined;
  readonly degraded: boolean;
}

function errorOfLimit(refusal: LimitRefusal, news: News): ServiceError {
  const { which, owner, limit, used, requested, retryAfterMs } = refusal;
  const figures = `limit ${limit}, used ${used}, requested ${requested}`;
  const type = which === "tokens" ? "tokens" : "requests";
  if (retryAfterMs === null) {
    const message = `Request too large for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. ${smaller[which]}`;
    return new ServiceError("rate_limit_exceeded", message, { ...news, type, shouldRetry: false });
  }
  const wait = goDuration(Math.max(1, Math.ceil(retryAfterMs)));
  const message = `Rate limit reached for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. Try again in ${wait}.`;
  return new ServiceError("rate_limit_exceeded", message, { ...news, type, retryAfterMs });
}

const nameOf = {
  requests: "requests per minute",
  tokens: "tokens per minute",
  concurrency: "concurrent requests",
} as const;

const smaller = {
  requests: "This request can never pass this limit.",
  tokens: "Shorten the prompt, or ask for fewer tokens with max_tokens.",
  concurrency: "This request can never pass this limit.",
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

function errorOfBudget(refusal: BudgetRefusal, news: News): ServiceError {
  const { thresholdId, metric, limit, used, requested, resetsAtMs } = refusal;
  const unit = metric === "cost" ? "nano-dollars" : metric;
  return new ServiceError(
    "insufficient_quota",
    `The budget ${thresholdId} has no room: limit ${limit} ${unit}, used ${used}, requested ${requested}. ` +
      `It begins anew at ${new Date(resetsAtMs).toISOString()}; an administrator can raise it.`,
    news,
  );
}

/**
 * Whole milliseconds as Go writes a duration: `12ms`, `7.66s`, `6m0s`, `1h0m0s`. Below a second in milliseconds; from a
 * second on a unit is there whenever a higher one is, and fractions of a second lose their trailing zeros.
 */
export function goDuration(ms: number): string {
  if (ms < 1_000) return ms === 0 ? "0s" : `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms % 60_000) / 1_000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
