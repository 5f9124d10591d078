import { headers } from "../../contract/headers.js";
import { inferenceOperations, type Operation } from "../../contract/operations.js";
import { BoundedMap } from "../../lib/collections.js";
import { rememberFirstTry } from "../call/call.js";
import type { AnswerHead } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import { type LimitOwner, type LimitSnapshot, type LimitState, limitSnapshot } from "../call/rate-limits.js";
import { ServiceError, type ServiceErrorOptions } from "../call/service-error.js";
import type { BudgetRefusal, LimitRefusal, Refused } from "./ledger.js";

/** Current use of the caller's limits, sent with answers and errors. */
interface LimitStatus {
  readonly limits?: LimitSnapshot | undefined;
  /** Decided without the shared store. */
  readonly degraded: boolean;
}

/** Rate-limit headers or metadata: integers and Go durations, none for a dimension without a limit (wire RL-1). */
export function limitHeaders({ limits, degraded }: LimitStatus): Readonly<Record<string, string>> {
  const fields: string[] = [];
  addLimits(fields, limits, degraded);
  const record: Record<string, string> = {};
  for (let i = 0; i < fields.length; i += 2) record[fields[i] ?? ""] = fields[i + 1] ?? "";
  return record;
}

/**
 * Appends header names and values alternately to one list, because an object with these keys would cost 3 microseconds per
 * answer.
 */
function addLimits(fields: string[], limits: LimitSnapshot | undefined, degraded: boolean): void {
  if (limits?.requests !== undefined) {
    const { limit, remaining, resetMs } = limits.requests;
    fields.push(headers.limitRequests, String(limit));
    fields.push(headers.remainingRequests, String(remaining));
    fields.push(headers.resetRequests, goDuration(Math.ceil(resetMs)));
  }
  if (limits?.tokens !== undefined) {
    const { limit, remaining, resetMs } = limits.tokens;
    fields.push(headers.limitTokens, String(limit));
    fields.push(headers.remainingTokens, String(remaining));
    fields.push(headers.resetTokens, goDuration(Math.ceil(resetMs)));
  }
  if (degraded) fields.push(headers.limitsDegraded, "1");
}

/** Error for a request rejected by a rate limit. */
export class LimitError extends ServiceError {
  readonly refusal: LimitRefusal;

  constructor(message: string, refusal: LimitRefusal, options: ServiceErrorOptions) {
    super("rate_limit_exceeded", message, options);
    this.refusal = refusal;
  }

  /** The rejection as the ledger reported it. */
  toRefused(): Refused {
    const { refusal, limits, degraded } = this;
    return { admitted: false, refusal, degraded, ...(limits && { snapshot: limits }) };
  }
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

function errorOfLimit(refusal: LimitRefusal, status: LimitStatus): LimitError {
  const { which, owner, limit, used, requested, retryAfterMs } = refusal;
  const figures = `limit ${limit}, used ${used}, requested ${requested}`;
  const type = which === "tokens" ? "tokens" : "requests";
  if (retryAfterMs === null) {
    const advice =
      which === "tokens"
        ? "Shorten the prompt, or ask for fewer tokens with max_tokens."
        : "This request can never pass this limit.";
    const message = `Request too large for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. ${advice}`;
    return new LimitError(message, refusal, { ...status, type, shouldRetry: false });
  }
  const wait = goDuration(Math.max(1, Math.ceil(retryAfterMs)));
  const message = `Rate limit reached for the ${nameOf[which]} of ${ownerWords(owner)}: ${figures}. Try again in ${wait}.`;
  return new LimitError(message, refusal, { ...status, type, retryAfterMs });
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

/**
 * Appends the headers of an answer, names and values alternately: its route, if a deployment ran it, and the caller's
 * limits.
 */
export function addAnswerHeaders(fields: string[], head: AnswerHead): void {
  if (head.attempts > 0) for (const text of routeFields(head)) fields.push(text);
  addLimits(fields, head.limits, head.degraded);
}

/** The route and the limits of an answer as metadata of an RPC, names and values alternately. */
export function answerMetadata(head: AnswerHead): readonly string[] {
  if (head.attempts > 0 && head.limits === undefined && !head.degraded) return routeFields(head);
  const fields: string[] = [];
  addAnswerHeaders(fields, head);
  return fields;
}

/** Metadata or trailers with the deployment and, if a fallback model answered, its id; names and values alternately. */
export const routeFields = rememberFirstTry(({ deployment, attempts, fallbackModel }): readonly string[] => [
  ...[headers.deployment, headerText(deployment)],
  ...[headers.attempts, String(attempts)],
  ...(fallbackModel === null ? [] : [headers.answeringModel, headerText(fallbackModel)]),
]);

const visibleAscii = /^[\x21-\x7e]*$/;

/** Percent-encodes the id of an upstream if it has characters that are not allowed in headers. */
function headerText(id: string): string {
  return visibleAscii.test(id) ? id : encodeURI(id.toWellFormed());
}

/**
 * Maximum time for which a rejection is cached. A raised limit or a reset window takes effect after this time at the latest
 * (state RL-15).
 */
const holdMsMax = 1_000;
/** Maximum number of cached rejections; all other callers are checked by the ledger. */
const heldMax = 20_000;

/** A refusal by a request limit of a key or an account. */
type CacheableRefusal = LimitRefusal & { readonly retryAfterMs: number };

interface Held {
  readonly refusal: CacheableRefusal;
  readonly snapshot: LimitSnapshot | undefined;
  readonly waitMs: number;
  /** Time of the rejection on the monotonic clock. */
  readonly atMs: number;
}

/**
 * Rejects callers known to be over a limit, in memory and before the body is read. Only request limits of keys and accounts
 * are cached: a charged request stays charged for the whole window, whereas tokens are released when any request ends; and
 * the model is unknown before the body is read.
 */
export class RejectionCache {
  readonly #clock: Pick<Clock, "monotonic">;
  /** Cached rejections, by kind and id of the key or account. */
  #held = new BoundedMap<string, Held>(heldMax);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Caches a rejection by the ledger. */
  note({ refusal, snapshot, degraded }: Refused): void {
    if (!isCacheable(refusal, degraded)) return;
    const { owner, retryAfterMs: waitMs } = refusal;
    this.#held.set(`${owner.kind} ${owner.id}`, { refusal, snapshot, waitMs, atMs: this.#clock.monotonic() });
  }

  /** Throws the 429 of the ledger with the remaining wait. */
  check(operation: Operation, { keyId, account }: Pick<Principal, "keyId" | "account">): void {
    if (this.#held.size === 0 || !inferenceOperations.has(operation)) return;
    if (keyId !== null) this.#checkOwner(`key ${keyId}`);
    this.#checkOwner(`account ${account}`);
  }

  /** Clears the cache after limits changed or a window was reset. */
  clear(): void {
    this.#held = new BoundedMap(heldMax);
  }

  #checkOwner(name: string): void {
    const held = this.#held.get(name);
    if (held === undefined) return;
    const sinceMs = this.#clock.monotonic() - held.atMs;
    if (sinceMs >= Math.min(held.waitMs, holdMsMax)) {
      this.#held.delete(name);
      return;
    }
    const refusal = { ...held.refusal, retryAfterMs: held.waitMs - sinceMs };
    throw errorOfRefusal({ refusal, snapshot: held.snapshot && aged(held.snapshot, sinceMs), degraded: false });
  }
}

/**
 * A rejection by this process's share of a limit during an outage is `degraded` and is not cached, because the shared store
 * may admit the request once it has recovered.
 */
function isCacheable(refusal: Refused["refusal"], degraded: boolean): refusal is CacheableRefusal {
  const { which } = refusal;
  return which === "requests" && refusal.retryAfterMs !== null && refusal.owner.kind !== "model" && !degraded;
}

/** The rejection as text for a trusted gateway, which then caches it; null for an error that is not cached. */
export function refusalText(error: ServiceError): string | null {
  if (!(error instanceof LimitError) || !isCacheable(error.refusal, error.degraded)) return null;
  return JSON.stringify(error.refusal);
}

/** Parses the text of `refusalText`; null if there is none. */
export function readRefusal(text: string | undefined): LimitRefusal | null {
  return text === undefined ? null : (JSON.parse(text) as LimitRefusal);
}

/** The snapshot as it is `sinceMs` later, if nothing was charged. */
function aged({ requests, tokens }: LimitSnapshot, sinceMs: number): LimitSnapshot {
  const later = (state: LimitState) => ({ ...state, resetMs: Math.max(0, state.resetMs - sinceMs) });
  return limitSnapshot(requests && later(requests), tokens && later(tokens));
}
