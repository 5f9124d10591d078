import type { LimitOwner } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";

/** How long a charge counts at least: in no 60 seconds more than the limit is admitted (state RL-3). */
const windowMs = 60_000;
const bucketMs = 5_000;
/** Twelve that fill the window, and the one that is being filled. */
const bucketCount = windowMs / bucketMs + 1;

/**
 * What was charged against one limit in the last 60 to 65 seconds, in sub-buckets of 5 s. A charge leaves with its
 * bucket: never before it is 60 s old, and 65 s after it at most (state RL-4). Amounts are integers of 0 or more; times
 * come from one clock that never goes back. 13 numbers, whatever is charged.
 */
export class SlidingWindow {
  /** By bucket number modulo their count. */
  readonly #buckets: number[] = new Array<number>(bucketCount).fill(0);
  #newest = 0;
  #sum = 0;

  /** What counts now. */
  used(nowMs: number): number {
    this.#roll(nowMs);
    return this.#sum;
  }

  /** Charges, also beyond any limit. Returns the bucket, for `correct`. */
  add(nowMs: number, amount: number): number {
    this.#roll(nowMs);
    this.#put(this.#newest, amount);
    return this.#newest;
  }

  /**
   * Changes an earlier charge. What is given back goes to the charge's own bucket, or nowhere when that has left; what
   * is added goes there or counts from now.
   */
  correct(bucket: number, delta: number, nowMs: number): void {
    this.#roll(nowMs);
    if (bucket > this.#newest - bucketCount) this.#put(bucket, delta);
    else if (delta > 0) this.#put(this.#newest, delta);
  }

  /** Until `amount` fits under `limit` if nothing else is charged: whole milliseconds, 0 for now, null for never. */
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

  /** Until nothing counts any more if nothing else is charged; 0 when nothing does. */
  resetMs(nowMs: number): number {
    this.#roll(nowMs);
    if (this.#sum === 0) return 0;
    let bucket = this.#newest;
    while (this.#at(bucket) === 0) bucket -= 1;
    return untilGone(bucket, nowMs);
  }

  /** Whether it may be forgotten: a new window would answer the same. */
  isIdle(nowMs: number): boolean {
    return this.used(nowMs) === 0;
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

  /** Lets the buckets go that are too old by now. */
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

/** Where a bucket lies; buckets from before the clock's zero have negative numbers. */
function slotOf(bucket: number): number {
  const rest = bucket % bucketCount;
  return rest < 0 ? rest + bucketCount : rest;
}

function untilGone(bucket: number, nowMs: number): number {
  return Math.ceil((bucket + bucketCount) * bucketMs - nowMs);
}

const ownersMax = 500_000;

/** What one owner of limits has used. */
export class OwnerWindows {
  #requests = new SlidingWindow();
  #tokens = new SlidingWindow();
  /** Admitted requests that have not ended. */
  running = 0;

  get requests(): SlidingWindow {
    return this.#requests;
  }

  get tokens(): SlidingWindow {
    return this.#tokens;
  }

  /** Running requests keep the old windows for what they give back, so none of it is taken from new charges. */
  reset(): void {
    this.#requests = new SlidingWindow();
    this.#tokens = new SlidingWindow();
  }

  isIdle(nowMs: number): boolean {
    return this.running === 0 && this.#requests.isIdle(nowMs) && this.#tokens.isIdle(nowMs);
  }
}

/** The windows of all owners that were used in the last minute or have running requests (state RL-21). */
export class WindowTable {
  readonly #byName = new Map<string, OwnerWindows>();
  #unchecked: IterableIterator<[string, OwnerWindows]> = this.#byName.entries();

  get size(): number {
    return this.#byName.size;
  }

  /** Throws ServiceError `server_is_overloaded` when 500,000 owners are kept. */
  of(account: string, owner: LimitOwner): OwnerWindows {
    const name = nameOf(account, owner);
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    if (this.#byName.size >= ownersMax) {
      throw new ServiceError("server_is_overloaded", `Limits of ${ownersMax} owners are in use.`, {
        retryAfterMs: 1000,
      });
    }
    const windows = new OwnerWindows();
    this.#byName.set(name, windows);
    return windows;
  }

  find(account: string, owner: LimitOwner): OwnerWindows | undefined {
    return this.#byName.get(nameOf(account, owner));
  }

  /** Looks at the next `max` owners, in turn, and forgets those that hold nothing: a bounded stall, and no timer. */
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

/** No account and no id holds a line break. */
function nameOf(account: string, { kind, id }: LimitOwner): string {
  return kind === "model" ? `model\n${account}\n${id}` : `${kind}\n${id}`;
}
