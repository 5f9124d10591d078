import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";

export interface Slot {
  /** Wait for the slot. */
  readonly queueMs: number;
  /** Releases the slot. Idempotent. */
  release(): void;
}

export interface ModelQueueOptions {
  /** Concurrent requests; 1 or more. */
  readonly slots: number;
  /** Requests that may wait. 0 or more. */
  readonly waitingMax: number;
  /** Maximum wait, read when a wait begins. */
  readonly limits: Pick<ServiceLimits, "queueWaitMs">;
}

interface Waiter {
  grant(): void;
  refuse(error: ServiceError): void;
}

/** Bounds of the Retry-After for a rejected request. */
const retryAfterMinMs = 1_000;
const retryAfterMaxMs = 30_000;
/** Weight of the newest duration in the moving average of slot use. */
const holdWeight = 0.1;

/**
 * Allocates the slots of one deployment, fairly between accounts and between the keys of an account (REL-5). A full
 * queue rejects at once. When a key with few waiting requests meets a full queue, the newest request of the key with
 * the most is dropped for it.
 */
export class ModelQueue {
  readonly #clock: Clock;
  readonly #options: ModelQueueOptions;
  readonly #waiting = new FairQueue<Waiter>();
  /** Slots in use. */
  busy = 0;
  #meanHoldMs = 1_000;
  #refusals = 0;

  constructor(clock: Clock, options: ModelQueueOptions) {
    this.#clock = clock;
    this.#options = options;
  }

  get slots(): number {
    return this.#options.slots;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Running and waiting requests per slot; deployments are compared by it. */
  get load(): number {
    return (this.busy + this.waiting) / this.#options.slots;
  }

  /** A free slot if no request waits for one; null otherwise. */
  tryAcquire(): Slot | null {
    if (this.busy >= this.#options.slots || this.waiting > 0) return null;
    return this.#take(0);
  }

  /**
   * Waits for a slot. Rejects with `server_is_overloaded` when the queue is full or the wait too long, and with the
   * call's own error when the signal aborts. `continuing` marks a further prompt of a running request: it queues like
   * others but is never rejected.
   */
  acquire(owner: QueueOwner, signal: AbortFlag, continuing = false): Promise<Slot> {
    const sinceMs = this.#clock.monotonic();
    if (signal.aborted) return Promise.reject(errorOfEnd(signal.reason));
    const free = this.tryAcquire();
    if (free !== null) return Promise.resolve(free);
    if (!continuing && this.waiting >= this.#options.waitingMax && !this.#makeRoomFor(owner)) {
      return Promise.reject(this.#overloaded("The model's queue is full."));
    }
    const { queueWaitMs } = this.#options.limits;
    return new Promise((resolve, reject) => {
      const cancelTimer = continuing
        ? undefined
        : this.#clock.after(queueWaitMs, () =>
            cancel(this.#overloaded(`No slot of the model became free within ${queueWaitMs / 1000} s.`)),
          );
      const onAbort = (): void => cancel(errorOfEnd(signal.reason));
      const settled = (): void => {
        cancelTimer?.();
        signal.removeEventListener("abort", onAbort);
      };
      const waiter: Waiter = {
        grant: () => {
          settled();
          resolve(this.#take(this.#clock.monotonic() - sinceMs));
        },
        refuse: (error) => {
          settled();
          reject(error);
        },
      };
      const cancel = (error: ServiceError): void => {
        this.#waiting.remove(owner, waiter);
        waiter.refuse(error);
      };
      signal.addEventListener("abort", onAbort);
      this.#waiting.add(owner, waiter);
    });
  }

  #take(queueMs: number): Slot {
    this.busy += 1;
    const grantedMs = this.#clock.monotonic();
    let held = true;
    return {
      queueMs,
      release: () => {
        if (!held) return;
        held = false;
        this.busy -= 1;
        this.#meanHoldMs += holdWeight * (this.#clock.monotonic() - grantedMs - this.#meanHoldMs);
        this.#waiting.next()?.grant();
      },
    };
  }

  /** Drops the newest request of the key with the most waiting ones, if that key would still have more than `owner`. */
  #makeRoomFor(owner: QueueOwner): boolean {
    const victim = this.#waiting.newestOfHeaviest(owner);
    if (victim === null) return false;
    victim.refuse(this.#overloaded("The model's queue is full, and other keys wait with fewer requests."));
    return true;
  }

  /** 503 with the estimated wait, randomized so that rejected clients do not return together. */
  #overloaded(why: string): ServiceError {
    const expectedMs = (this.#meanHoldMs * (this.waiting + 1)) / this.#options.slots;
    const spread = 1 + (this.#refusals++ % 8) / 32;
    const retryAfterMs = Math.ceil(Math.min(retryAfterMaxMs, Math.max(retryAfterMinMs, expectedMs * spread)));
    return new ServiceError("server_is_overloaded", `${why} Try again in ${Math.ceil(retryAfterMs / 1000)} s.`, {
      retryAfterMs,
    });
  }
}

/** Owner of a waiting request. The administrator counts as a key. */
export interface QueueOwner {
  readonly account: string;
  readonly keyId: string | null;
}

/** Round-robin queue by account and, within an account, by key: an entry that is added to its Map again comes last. */
export class FairQueue<T> {
  readonly #accounts = new Map<string, Map<string, T[]>>();
  size = 0;

  add(owner: QueueOwner, item: T): void {
    const keys = this.#accounts.get(owner.account) ?? new Map<string, T[]>();
    const lane = keys.get(laneOf(owner)) ?? [];
    lane.push(item);
    keys.set(laneOf(owner), lane);
    this.#accounts.set(owner.account, keys);
    this.size += 1;
  }

  /** Removes and returns the next item that is accepted, or the next one of all; undefined if there is none. */
  next(accepts?: (item: T) => boolean): T | undefined {
    for (const [account, keys] of this.#accounts) {
      for (const [key, lane] of keys) {
        const position = accepts === undefined ? 0 : lane.findIndex(accepts);
        if (position < 0) continue;
        const item = position === 0 ? lane.shift() : lane.splice(position, 1)[0];
        this.size -= 1;
        keys.delete(key);
        if (lane.length > 0) keys.set(key, lane);
        this.#accounts.delete(account);
        if (keys.size > 0) this.#accounts.set(account, keys);
        return item;
      }
    }
    return undefined;
  }

  remove(owner: QueueOwner, item: T): void {
    const keys = this.#accounts.get(owner.account);
    const lane = keys?.get(laneOf(owner));
    const position = lane?.indexOf(item) ?? -1;
    if (keys === undefined || lane === undefined || position < 0) return;
    lane.splice(position, 1);
    this.size -= 1;
    this.#forgetIfEmpty(owner, keys, lane);
  }

  /** Removes and returns the newest item of the longest lane, if that lane is longer than `owner`'s would become. */
  newestOfHeaviest(owner: QueueOwner): T | null {
    const own = this.#accounts.get(owner.account)?.get(laneOf(owner))?.length ?? 0;
    let heaviest: { owner: QueueOwner; keys: Map<string, T[]>; lane: T[] } | null = null;
    for (const [account, keys] of this.#accounts) {
      for (const [key, lane] of keys) {
        if (lane.length > (heaviest?.lane.length ?? own + 1)) heaviest = { owner: { account, keyId: key }, keys, lane };
      }
    }
    const item = heaviest?.lane.pop();
    if (heaviest === null || item === undefined) return null;
    this.size -= 1;
    this.#forgetIfEmpty(heaviest.owner, heaviest.keys, heaviest.lane);
    return item;
  }

  #forgetIfEmpty(owner: QueueOwner, keys: Map<string, T[]>, lane: T[]): void {
    if (lane.length === 0) keys.delete(laneOf(owner));
    if (keys.size === 0) this.#accounts.delete(owner.account);
  }
}

function laneOf(owner: QueueOwner): string {
  return owner.keyId ?? "";
}
