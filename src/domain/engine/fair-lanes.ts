/** Whose request waits. The administrator has no key and counts as one of its own. */
export interface Who {
  readonly account: string;
  readonly keyId: string | null;
}

type Lane<T> = T[];

/**
 * Waiting items by account and key. `next` goes round the accounts, and round the keys within an account, so that
 * nobody waits behind all of somebody else's requests. A Map keeps insertion order, so that taking the first entry and
 * putting it back last is the whole rotation.
 */
export class FairLanes<T> {
  readonly #accounts = new Map<string, Map<string, Lane<T>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(who: Who, item: T): void {
    const keys = this.#accounts.get(who.account) ?? new Map<string, Lane<T>>();
    const lane = keys.get(laneOf(who)) ?? [];
    lane.push(item);
    keys.set(laneOf(who), lane);
    this.#accounts.set(who.account, keys);
    this.#size += 1;
  }

  /** The item whose turn it is, removed; undefined when nothing waits. */
  next(): T | undefined {
    for (const [account, keys] of this.#accounts) {
      for (const [key, lane] of keys) {
        const item = lane.shift();
        this.#size -= 1;
        keys.delete(key);
        if (lane.length > 0) keys.set(key, lane);
        this.#accounts.delete(account);
        if (keys.size > 0) this.#accounts.set(account, keys);
        return item;
      }
    }
    return undefined;
  }

  remove(who: Who, item: T): void {
    const keys = this.#accounts.get(who.account);
    const lane = keys?.get(laneOf(who));
    const position = lane?.indexOf(item) ?? -1;
    if (keys === undefined || lane === undefined || position < 0) return;
    lane.splice(position, 1);
    this.#size -= 1;
    this.#forgetIfEmpty(who, keys, lane);
  }

  /** Removes and returns the newest item of the longest lane, if that lane is longer than `who`'s would become. */
  newestOfHeaviest(who: Who): T | null {
    const own = this.#accounts.get(who.account)?.get(laneOf(who))?.length ?? 0;
    let heaviest: { who: Who; keys: Map<string, Lane<T>>; lane: Lane<T> } | null = null;
    for (const [account, keys] of this.#accounts) {
      for (const [key, lane] of keys) {
        if (lane.length > (heaviest?.lane.length ?? own + 1)) heaviest = { who: { account, keyId: key }, keys, lane };
      }
    }
    const item = heaviest?.lane.pop();
    if (heaviest === null || item === undefined) return null;
    this.#size -= 1;
    this.#forgetIfEmpty(heaviest.who, heaviest.keys, heaviest.lane);
    return item;
  }

  #forgetIfEmpty(who: Who, keys: Map<string, Lane<T>>, lane: Lane<T>): void {
    if (lane.length === 0) keys.delete(laneOf(who));
    if (keys.size === 0) this.#accounts.delete(who.account);
  }
}

function laneOf(who: Who): string {
  return who.keyId ?? "";
}
