import type { ChangeFeed, Clock, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import {
  isUnlimited,
  type LimitOwner,
  type LimitScope,
  limitsOver,
  type RateLimitDefaults,
  type RateLimits,
  unlimited,
} from "../call/rate-limits.js";
import { RefreshingCache } from "./refreshing-cache.js";

export interface LimitBookDeps {
  readonly store: Pick<LimitStore, "list">;
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  readonly log: Logger;
}

const noScopes: readonly LimitScope[] = Object.freeze([]);
/** Cached models per caller. */
const modelsPerCallerMax = 1_000;

/**
 * Resolves the limits of a call: of its key, account and model, each with the configured default as fallback. Limits of
 * accounts and models are cached; those of a key come with the principal.
 */
export class LimitBook {
  readonly #copy: RefreshingCache<readonly StoredLimits[]>;
  #stored: ReadonlyMap<string, StoredLimits> = new Map();
  #defaults: RateLimitDefaults;
  /** No configured default limits anything. */
  #isOpen = true;
  /** By principal and model. A changed key is a new principal; other changes clear it. */
  #scopes = new WeakMap<Principal, Map<string, readonly LimitScope[]>>();

  constructor(deps: LimitBookDeps, defaults: RateLimitDefaults) {
    this.#defaults = defaults;
    this.#copy = new RefreshingCache({
      ...deps,
      kind: "limits",
      read: () => deps.store.list(),
      take: (list) => {
        this.#stored = new Map(list.map((stored) => [nameOf(stored.owner), stored]));
        this.#changed();
      },
    });
    this.#changed();
  }

  /** Resolves when the stored limits are loaded, or when the store does not answer: the last known ones then stay. */
  refresh(): Promise<void> {
    return this.#copy.refresh();
  }

  close(): void {
    this.#copy.close();
  }

  /** Applies a changed configuration to the next request. */
  setDefaults(defaults: RateLimitDefaults): void {
    this.#defaults = defaults;
    this.#changed();
  }

  /**
   * Limits of a call; without a model, those known before the body is read. For an administrator only the account's.
   */
  scopesOf(principal: Principal, model: string | null): readonly LimitScope[] {
    if (this.#isOpen && (principal.kind !== "api_key" || isUnlimited(principal.limits))) return noScopes;
    let ofCaller = this.#scopes.get(principal);
    const known = ofCaller?.get(model ?? "");
    if (known !== undefined) return known;
    if (ofCaller === undefined || ofCaller.size >= modelsPerCallerMax) {
      ofCaller = new Map();
      this.#scopes.set(principal, ofCaller);
    }
    const scopes = this.#workOut(principal, model);
    ofCaller.set(model ?? "", scopes);
    return scopes;
  }

  /** Limits set by an administrator; null if none. Limits of keys are stored with the key. */
  storedOf(owner: LimitOwner): StoredLimits | null {
    return this.#stored.get(nameOf(owner)) ?? null;
  }

  /** The configured default of an owner. */
  defaultOf({ kind, id }: LimitOwner): RateLimits {
    switch (kind) {
      case "key":
        return this.#defaults.key;
      case "account":
        return this.#defaults.account;
      case "model":
        return this.#defaults.models.get(id) ?? unlimited;
    }
  }

  #workOut(principal: Principal, model: string | null): readonly LimitScope[] {
    const scopes: LimitScope[] = [];
    const add = (owner: LimitOwner, own: RateLimits): void => {
      const limits = limitsOver(own, this.defaultOf(owner));
      if (!isUnlimited(limits)) scopes.push(Object.freeze({ owner, limits }));
    };
    const addStored = (owner: LimitOwner): void => add(owner, this.storedOf(owner)?.limits ?? unlimited);
    if (principal.kind === "api_key") add({ kind: "key", id: principal.keyId }, principal.limits);
    addStored({ kind: "account", id: principal.account });
    if (principal.kind === "api_key" && model !== null) addStored({ kind: "model", id: model });
    return scopes.length === 0 ? noScopes : Object.freeze(scopes);
  }

  #changed(): void {
    const { key, account, models } = this.#defaults;
    this.#isOpen = this.#stored.size === 0 && models.size === 0 && isUnlimited(key) && isUnlimited(account);
    this.#scopes = new WeakMap();
  }
}

function nameOf({ kind, id }: LimitOwner): string {
  return `${kind} ${id}`;
}

/** Limits of an account or model set by an administrator. */
export interface StoredLimits {
  readonly owner: LimitOwner;
  readonly limits: RateLimits;
  readonly updatedAtMs: number;
}

/** Port of the limit store. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface LimitStore {
  /** At most 10,000, by kind and id. */
  list(): Promise<readonly StoredLimits[]>;
  /** The last writer wins. Rejects with `storage_unavailable` beyond 10,000. */
  put(limits: StoredLimits): Promise<void>;
  /** Restores the configured default; false if nothing was set. */
  remove(owner: LimitOwner): Promise<boolean>;
}
