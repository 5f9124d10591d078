import type { ChangeFeed, StateChange } from "../../../../src/domain/call/ports.js";
import type { Principal } from "../../../../src/domain/call/principal.js";
import { type RateLimitDefaults, type RateLimits, unlimited } from "../../../../src/domain/call/rate-limits.js";
import { LimitBook, type LimitStore, type StoredLimits } from "../../../../src/domain/metering/limit-book.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

export const noDefaults: RateLimitDefaults = { key: unlimited, account: unlimited, models: new Map() };

export function limitsOf(fields: Partial<RateLimits>): RateLimits {
  return { ...unlimited, ...fields };
}

/** A caller with an API key of the account `a`. */
export function keyHolder(limits: RateLimits = unlimited): Extract<Principal, { kind: "api_key" }> {
  return { kind: "api_key", keyId: "key_1", account: "a", scope: "read_write", models: [], limits };
}

export const administrator: Principal = {
  kind: "administrator",
  keyId: null,
  account: "default",
  sessionId: null,
  role: "admin",
};

/** A store of limits and its feed, in memory; can be made unavailable. */
export class HandLimitStore implements LimitStore, ChangeFeed {
  readonly isLinked = true;
  readonly isComplete = true;
  stored: StoredLimits[] = [];
  away = false;
  reads = 0;
  readonly #listeners = new Set<(change: StateChange) => void>();

  async list() {
    this.reads += 1;
    if (this.away) throw new Error("the store is unavailable");
    return this.stored;
  }

  async put(limits: StoredLimits) {
    await this.remove(limits.owner);
    this.stored = [...this.stored, limits];
  }

  async remove({ kind, id }: StoredLimits["owner"]) {
    const rest = this.stored.filter(({ owner }) => owner.kind !== kind || owner.id !== id);
    const removed = rest.length < this.stored.length;
    this.stored = rest;
    return removed;
  }

  subscribe(listener: (change: StateChange) => void) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(change: StateChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

export function openBook(defaults: RateLimitDefaults = noDefaults) {
  const store = new HandLimitStore();
  const clock = new FakeClock();
  const book = new LimitBook({ store, changes: store, clock, log: silentLog }, defaults);
  return { store, clock, book };
}
