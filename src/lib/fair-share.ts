import type { AbortFlag } from "./abort-source.js";
import { FairQueue } from "./fair-queue.js";

/** Limits of a FairShare. They are read at each use, so a changed limit also applies to waiting entries. */
export interface FairShareLimits {
  /** Maximum number of units of all accounts together; a unit is for example a slot or a byte. */
  readonly capacity: number;
  /** Maximum number of units of one account. The difference to `capacity` stays free for other accounts. */
  readonly accountMax: number;
  /** Maximum number of units of one account while other accounts wait. */
  readonly contendedMax: number;
  /** Maximum number of waiting entries of all accounts together. */
  readonly waitingMax: number;
}

/** Too many entries wait for a unit, most of them of the same account. */
export class FairShareFull extends Error {
  override readonly name = "FairShareFull";
}

interface Waiter {
  readonly account: string;
  grant(): void;
  refuse(error: FairShareFull): void;
}

/**
 * Shares the units of one resource between accounts. A free unit goes to the waiting accounts in turn (round robin), and
 * an account holds at most `accountMax` units, or `contendedMax` while others wait. When the queue is full, the newest
 * entry of the account with the most waiting ones is rejected for an account with fewer.
 */
export class FairShare {
  readonly #limits: FairShareLimits;
  readonly #heldBy = new Map<string, number>();
  readonly #queue = new FairQueue<Waiter>();
  /** Units in use, of all accounts. */
  held = 0;

  constructor(limits: FairShareLimits) {
    this.#limits = limits;
  }

  /** Number of entries that wait for a unit. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Units that the account could take now. 0 while its own entries wait, which come first. */
  roomOf(account: string): number {
    return this.#queue.has(account) ? 0 : this.#roomOf(account);
  }

  /** Takes units without waiting. Returns false, and takes none, if not enough units are free. */
  tryTake(account: string, units = 1): boolean {
    if (units > this.roomOf(account)) return false;
    this.#take(account, units);
    return true;
  }

  /** Returns units that `tryTake` took. */
  release(account: string, units = 1): void {
    this.held -= units;
    const left = (this.#heldBy.get(account) ?? 0) - units;
    if (left > 0) this.#heldBy.set(account, left);
    else this.#heldBy.delete(account);
    this.#dispatch();
  }

  /**
   * Waits for one unit. The returned function releases it, and may be called repeatedly. Rejects with the signal's reason
   * when that aborts, and with FairShareFull when the queue is full.
   */
  acquire(account: string, signal: AbortFlag): Promise<() => void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.tryTake(account)) return Promise.resolve(this.#releaseOnce(account));
    if (this.waiting >= this.#limits.waitingMax && !this.#makeRoomFor(account)) {
      return Promise.reject(new FairShareFull("too many entries of this account wait"));
    }
    return this.#wait(account, signal);
  }

  /** Runs the task with one unit. Rejects like `acquire` and like the task. */
  async run<T>(account: string, signal: AbortFlag, task: () => T | Promise<T>): Promise<T> {
    const release = await this.acquire(account, signal);
    try {
      return await task();
    } finally {
      release();
    }
  }

  #wait(account: string, signal: AbortFlag): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#queue.remove(ownerOf(account), waiter);
        reject(signal.reason);
        // When this account stops waiting, the others may hold more units.
        this.#dispatch();
      };
      const settled = (): void => signal.removeEventListener("abort", onAbort);
      const waiter: Waiter = {
        account,
        grant: () => {
          settled();
          resolve(this.#releaseOnce(account));
        },
        refuse: (error) => {
          settled();
          reject(error);
        },
      };
      signal.addEventListener("abort", onAbort);
      this.#queue.add(ownerOf(account), waiter);
    });
  }

  /** Grants free units to the waiting accounts in turn. */
  #dispatch(): void {
    while (this.waiting > 0 && this.held < this.#limits.capacity) {
      const waiter = this.#queue.next(({ account }) => this.#roomOf(account) > 0);
      if (waiter === undefined) return;
      this.#take(waiter.account, 1);
      waiter.grant();
    }
  }

  #take(account: string, units: number): void {
    this.held += units;
    this.#heldBy.set(account, (this.#heldBy.get(account) ?? 0) + units);
  }

  #roomOf(account: string): number {
    const { capacity, accountMax, contendedMax } = this.#limits;
    const max = this.#queue.hasOthers(account) ? Math.min(contendedMax, accountMax) : accountMax;
    return Math.max(0, Math.min(capacity - this.held, max - (this.#heldBy.get(account) ?? 0)));
  }

  #makeRoomFor(account: string): boolean {
    const victim = this.#queue.newestOfHeaviest(ownerOf(account));
    victim?.refuse(new FairShareFull("too many entries wait, most of them of this account"));
    return victim !== null;
  }

  #releaseOnce(account: string): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.release(account);
    };
  }
}

function ownerOf(account: string): { readonly account: string; readonly keyId: null } {
  return { account, keyId: null };
}
