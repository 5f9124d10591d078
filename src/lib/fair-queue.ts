/** Owner of a waiting request. The administrator counts as a key. */
export interface QueueOwner {
  readonly account: string;
  readonly keyId: string | null;
}

/** Round-robin queue by account and, within an account, by key: an entry that is added to its Map again comes last. */
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
