import type { ChangeFeed } from "../call/change-feed.js";
import type { Clock, Logger } from "../call/ports.js";
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
import { KeptCopy } from "./kept-copy.js";

export interface LimitBookDeps {
  readonly store: Pick<LimitStore, "list">;
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  readonly log: Logger;
}

const noScopes: readonly LimitScope[] = Object.freeze([]);
/** Of one caller; one that uses more models has them worked out again. */
const modelsPerCallerMax = 1_000;

/**
 * Which limits apply to a call: those of its key, its account and its model, each own limit before the default of the
 * configuration. Limits of accounts and models are kept in memory, those of a key come with the principal.
 */
export class LimitBook {
  readonly #copy: KeptCopy<readonly StoredLimits[]>;
  #stored: ReadonlyMap<string, StoredLimits> = new Map();
  #defaults: RateLimitDefaults;
  /** Nothing limits anybody who has no limits of their own. */
  #isOpen = true;
  /** By caller and model. A changed key is a new principal; everything else empties it. */
  #scopes = new WeakMap<Principal, Map<string, readonly LimitScope[]>>();

  constructor(deps: LimitBookDeps, defaults: RateLimitDefaults) {
    this.#defaults = defaults;
    this.#copy = new KeptCopy({
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

  /** Resolves when the stored limits are those of the store, or when it does not answer: then the last known ones hold. */
  refresh(): Promise<void> {
    return this.#copy.refresh();
  }

  close(): void {
    this.#copy.close();
  }

  /** Takes over a changed configuration; it holds from the next request on. */
  setDefaults(defaults: RateLimitDefaults): void {
    this.#defaults = defaults;
    this.#changed();
  }

  /**
   * The limits that a call must pass. Without a model, those that hold before it is known. For an administrator those of
   * the account only.
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

  /** What an administrator has set; null: nothing. Not for keys, whose limits are kept with them. */
  storedOf(owner: LimitOwner): StoredLimits | null {
    return this.#stored.get(nameOf(owner)) ?? null;
  }

  /** What the configuration says of an owner without limits of its own. */
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

/** Limits that an administrator has set for an account or a model. Those of keys are kept with the key. */
export interface StoredLimits {
  readonly owner: LimitOwner;
  readonly limits: RateLimits;
  readonly updatedAtMs: number;
}

/** Where they are kept. Every change is told through the state's change feed. Rejects with `storage_unavailable`. */
export interface LimitStore {
  /** At most 10,000; in the order of kind and id. */
  list(): Promise<readonly StoredLimits[]>;
  /** The last writer wins. `storage_unavailable` when 10,000 are kept. */
  put(limits: StoredLimits): Promise<void>;
  /** Back to the configuration's default; false when nothing was set. */
  remove(owner: LimitOwner): Promise<boolean>;
}
