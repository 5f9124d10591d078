/** Owner of a waiting request. The administrator counts as a key. */
export interface QueueOwner {
  readonly account: string;
  readonly keyId: string | null;
}

interface FoundLane<T> {
  readonly owner: QueueOwner;
  readonly keys: Map<string, T[]>;
  readonly lane: T[];
}

/** Round-robin queue by account and, within an account, by key. Each key has a lane, a list of its waiting items. */
export class FairQueue<T> {
  readonly #accounts = new Map<string, Map<string, T[]>>();
  size = 0;

  /** Whether items of the account wait. */
  has(account: string): boolean {
    return this.#accounts.has(account);
  }

  /** Whether items of other accounts wait. */
  hasOthers(account: string): boolean {
    return this.#accounts.size > (this.has(account) ? 1 : 0);
  }

  add(owner: QueueOwner, item: T): void {
    const keys = this.#accounts.get(owner.account) ?? new Map<string, T[]>();
    const lane = keys.get(laneOf(owner)) ?? [];
    lane.push(item);
    keys.set(laneOf(owner), lane);
    this.#accounts.set(owner.account, keys);
    this.size += 1;
  }

  /** Removes and returns the next item, or the next one that `accepts` allows; undefined if there is none. */
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
    return this.#newestOf(this.#longestLane(this.#lengthOf(owner) + 1));
  }

  /** Whether `newestOfHeaviest` would return an item. */
  hasHeavier(owner: QueueOwner): boolean {
    return this.#longestLane(this.#lengthOf(owner) + 1) !== null;
  }

  /** Removes and returns the newest item of the longest lane; null if nothing waits. */
  newestOfLongest(): T | null {
    return this.#newestOf(this.#longestLane(0));
  }

  #lengthOf(owner: QueueOwner): number {
    return this.#accounts.get(owner.account)?.get(laneOf(owner))?.length ?? 0;
  }

  #newestOf(found: FoundLane<T> | null): T | null {
    const item = found?.lane.pop();
    if (found === null || item === undefined) return null;
    this.size -= 1;
    this.#forgetIfEmpty(found.owner, found.keys, found.lane);
    return item;
  }

  /** The longest lane of more than `length` items. */
  #longestLane(length: number): FoundLane<T> | null {
    let longest: FoundLane<T> | null = null;
    for (const [account, keys] of this.#accounts) {
      for (const [key, lane] of keys) {
        if (lane.length > (longest?.lane.length ?? length)) longest = { owner: { account, keyId: key }, keys, lane };
      }
    }
    return longest;
  }

  #forgetIfEmpty(owner: QueueOwner, keys: Map<string, T[]>, lane: T[]): void {
    if (lane.length === 0) keys.delete(laneOf(owner));
    if (keys.size === 0) this.#accounts.delete(owner.account);
  }
}

function laneOf(owner: QueueOwner): string {
  return owner.keyId ?? "";
}
