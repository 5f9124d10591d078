import type { LimitOwner, LimitScope, LimitSnapshot, LimitState } from "../call/rate-limits.js";
import type { LimitRefusal } from "./ledger.js";
import type { OwnerWindows, SlidingWindow } from "./sliding-window.js";

/** Retry-After of a concurrency limit, which frees up when any request ends. */
const concurrencyWaitMs = 1_000;

/** A limit with its current use. */
export interface ScopeUse extends LimitScope {
  readonly use: OwnerWindows;
}

/** Null when every limit has room for one request of `tokens`, otherwise the exceeded limit with the longest wait. */
export function refusalOf(uses: readonly ScopeUse[], tokens: number, nowMs: number): LimitRefusal | null {
  let worst: LimitRefusal | null = null;
  for (const { owner, limits, use } of uses) {
    worst = longer(worst, noRoom("requests", owner, use.requests, limits.requestsPerMinute, 1, nowMs));
    worst = longer(worst, noRoom("tokens", owner, use.tokens, limits.tokensPerMinute, tokens, nowMs));
    worst = longer(worst, noPlace(owner, use.running, limits.concurrency));
  }
  return worst;
}

/** In each dimension the limit with the least remaining. */
export function snapshotOf(uses: readonly ScopeUse[], nowMs: number): LimitSnapshot {
  let requests: LimitState | undefined;
  let tokens: LimitState | undefined;
  for (const { owner, limits, use } of uses) {
    requests = tighter(requests, owner, use.requests, limits.requestsPerMinute, nowMs);
    tokens = tighter(tokens, owner, use.tokens, limits.tokensPerMinute, nowMs);
  }
  return { ...(requests && { requests }), ...(tokens && { tokens }) };
}

function noRoom(
  which: "requests" | "tokens",
  owner: LimitOwner,
  window: SlidingWindow,
  limit: number | null,
  requested: number,
  nowMs: number,
): LimitRefusal | null {
  if (limit === null) return null;
  const retryAfterMs = window.waitMs(nowMs, requested, limit);
  if (retryAfterMs === 0) return null;
  return { which, owner, limit, used: window.used(nowMs), requested, retryAfterMs };
}

function noPlace(owner: LimitOwner, used: number, limit: number | null): LimitRefusal | null {
  if (limit === null || used < limit) return null;
  return { which: "concurrency", owner, limit, used, requested: 1, retryAfterMs: concurrencyWaitMs };
}

function longer(worst: LimitRefusal | null, next: LimitRefusal | null): LimitRefusal | null {
  if (worst === null || next === null) return worst ?? next;
  return (next.retryAfterMs ?? Infinity) > (worst.retryAfterMs ?? Infinity) ? next : worst;
}

function tighter(
  tightest: LimitState | undefined,
  owner: LimitOwner,
  window: SlidingWindow,
  limit: number | null,
  nowMs: number,
): LimitState | undefined {
  if (limit === null) return tightest;
  const remaining = Math.max(0, limit - window.used(nowMs));
  if (tightest !== undefined && tightest.remaining <= remaining) return tightest;
  return { owner, limit, remaining, resetMs: window.resetMs(nowMs) };
}
