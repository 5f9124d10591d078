import {
  type LimitOwner,
  type LimitScope,
  type LimitSnapshot,
  type LimitState,
  limitSnapshot,
} from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { LimitRefusal } from "./ledger.js";

/** Minimum time for which a charge counts, so that no more than the limit is admitted in any 60 seconds (state RL-3). */
const windowMs = 60_000;
const bucketMs = 5_000;
/** Twelve buckets for the window and the current one. */
const bucketCount = windowMs / bucketMs + 1;

/**
 * Charges against one limit in the last 60 to 65 seconds (state RL-4), in buckets of 5 s: a charge expires with its bucket.
 * Amounts are integers of 0 or more; times are monotonic. The memory is 13 numbers, however many charges there are.
 */
export class SlidingWindow {
  /** Charged amounts, indexed by bucket number modulo the number of buckets. */
  readonly #buckets: number[] = new Array<number>(bucketCount).fill(0);
  #newest = 0;
  #sum = 0;

  /** Current use. */
  used(nowMs: number): number {
    this.#roll(nowMs);
    return this.#sum;
  }

  /** Adds a charge without checking the limit. Returns its bucket, for `correct`. */
  add(nowMs: number, amount: number): number {
    this.#roll(nowMs);
    this.#put(this.#newest, amount);
    return this.#newest;
  }

  /**
   * Corrects an earlier charge in its bucket. If the bucket has expired, a refund is dropped and an increase is charged to
   * the current bucket.
   */
  correct(bucket: number, delta: number, nowMs: number): void {
    this.#roll(nowMs);
    if (bucket > this.#newest - bucketCount) this.#put(bucket, delta);
    else if (delta > 0) this.#put(this.#newest, delta);
  }

  /** Wait until `amount` fits under `limit` without further charges, in whole milliseconds; 0: now, null: never. */
  waitMs(nowMs: number, amount: number, limit: number): number | null {
    if (amount > limit) return null;
    this.#roll(nowMs);
    let excess = this.#sum + amount - limit;
    if (excess <= 0) return 0;
    for (let bucket = this.#newest - bucketCount + 1; bucket <= this.#newest; bucket++) {
      excess -= this.#at(bucket);
      if (excess <= 0) return untilGone(bucket, nowMs);
    }
    return untilGone(this.#newest, nowMs);
  }

  /** Time until the window is empty without further charges. */
  resetMs(nowMs: number): number {
    this.#roll(nowMs);
    if (this.#sum === 0) return 0;
    let bucket = this.#newest;
    while (this.#at(bucket) === 0) bucket -= 1;
    return untilGone(bucket, nowMs);
  }

  #at(bucket: number): number {
    return this.#buckets[slotOf(bucket)] ?? 0;
  }

  #put(bucket: number, delta: number): void {
    const before = this.#at(bucket);
    const after = Math.max(0, before + delta);
    this.#buckets[slotOf(bucket)] = after;
    this.#sum += after - before;
  }

  /** Clears expired buckets. */
  #roll(nowMs: number): void {
    const current = Math.floor(nowMs / bucketMs);
    if (current <= this.#newest) return;
    if (current - this.#newest >= bucketCount) {
      this.#buckets.fill(0);
      this.#sum = 0;
    } else {
      for (let bucket = this.#newest + 1; bucket <= current; bucket++) {
        this.#sum -= this.#at(bucket);
        this.#buckets[slotOf(bucket)] = 0;
      }
    }
    this.#newest = current;
  }
}

/** Index of a bucket; the modulo is never negative. */
function slotOf(bucket: number): number {
  const rest = bucket % bucketCount;
  return rest < 0 ? rest + bucketCount : rest;
}

function untilGone(bucket: number, nowMs: number): number {
  return Math.ceil((bucket + bucketCount) * bucketMs - nowMs);
}

const ownersMax = 500_000;

/** Rate limit windows of one owner (a key, an account or a model). */
export class OwnerWindows {
  requests = new SlidingWindow();
  tokens = new SlidingWindow();
  /** Running requests. */
  running = 0;

  /** Replaces both windows. Refunds of running requests go to the old windows, so that they do not reduce new charges. */
  reset(): void {
    this.requests = new SlidingWindow();
    this.tokens = new SlidingWindow();
  }

  /** Whether the windows are empty and no request runs, so that they can be dropped. */
  isIdle(nowMs: number): boolean {
    return this.running === 0 && this.requests.used(nowMs) === 0 && this.tokens.used(nowMs) === 0;
  }
}

/** Rate limit windows of all keys, accounts and models that were active in the last minute (state RL-21). */
export class WindowTable {
  readonly #byName = new Map<string, OwnerWindows>();
  #unchecked: IterableIterator<[string, OwnerWindows]> = this.#byName.entries();

  get size(): number {
    return this.#byName.size;
  }

  /** Returns the windows of a key, account or model. Throws ServiceError `server_is_overloaded` beyond 500,000 of them. */
  of(account: string, owner: LimitOwner): OwnerWindows {
    const name = nameOf(account, owner);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    if (this.#byName.size >= ownersMax) {
      const message = `Limits of ${ownersMax} owners are in use.`;
      throw new ServiceError("server_is_overloaded", message, { retryAfterMs: 1_000 });
    }
    const windows = new OwnerWindows();
    this.#byName.set(name, windows);
    return windows;
  }

  find(account: string, owner: LimitOwner): OwnerWindows | undefined {
    return this.#byName.get(nameOf(account, owner));
  }

  /**
   * Checks the next `max` keys, accounts and models and removes the windows of idle ones. Each call does bounded work, and
   * no timer is needed.
   */
  dropIdle(nowMs: number, max: number): void {
    for (let checked = 0; checked < max; checked++) {
      const next = this.#unchecked.next();
      if (next.done === true) {
        this.#unchecked = this.#byName.entries();
        return;
      }
      const [name, windows] = next.value;
      if (windows.isIdle(nowMs)) this.#byName.delete(name);
    }
  }
}

/** A line break separates the parts, because neither accounts nor ids contain one. */
function nameOf(account: string, { kind, id }: LimitOwner): string {
  return kind === "model" ? `model\n${account}\n${id}` : `${kind}\n${id}`;
}

/** Retry-After of a concurrency limit. It is short because the end of any request makes room. */
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
    worst = longer(worst, noConcurrency(owner, use.running, limits.concurrency));
  }
  return worst;
}

/** For requests and for tokens, the limit with the least remaining capacity. */
export function snapshotOf(uses: readonly ScopeUse[], nowMs: number): LimitSnapshot {
  let requests: LimitState | undefined;
  let tokens: LimitState | undefined;
  for (const { owner, limits, use } of uses) {
    requests = tighter(requests, owner, use.requests, limits.requestsPerMinute, nowMs);
    tokens = tighter(tokens, owner, use.tokens, limits.tokensPerMinute, nowMs);
  }
  return limitSnapshot(requests, tokens);
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

function noConcurrency(owner: LimitOwner, used: number, limit: number | null): LimitRefusal | null {
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
