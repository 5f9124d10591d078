import { groupBy } from "../../lib/collections.js";
import type { Principal } from "../call/principal.js";
import {
  type LimitOwner,
  type LimitScope,
  type RateLimitDefaults,
  type RateLimits,
  unlimited,
} from "../call/rate-limits.js";
import { StoreCache, type StoreCacheDeps } from "../call/store-cache.js";
import { type Threshold, usageScopeOf } from "../events/events.js";
import type { Budget } from "./ledger.js";

/** Limits of an account or model set by an administrator. */
export interface StoredLimits {
  readonly owner: LimitOwner;
  readonly limits: RateLimits;
  readonly updatedAtMs: number;
}

/** Port of the limit store. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface LimitStore {
  /** All stored limits, at most 10,000, sorted by kind and id. */
  list(): Promise<readonly StoredLimits[]>;
  /** The last writer wins. Rejects with `storage_unavailable` beyond 10,000. */
  put(limits: StoredLimits): Promise<void>;
  /** Restores the configured default; false if nothing was set. */
  remove(owner: LimitOwner): Promise<boolean>;
}

const noScopes: readonly LimitScope[] = Object.freeze([]);
/** Cached models per caller. */
const modelsPerCallerMax = 1_000;

/**
 * Resolves the limits of a call: of its key, account and model, each with the configured default as fallback. Limits of
 * accounts and models are cached; those of a key come with the principal.
 */
export class LimitBook extends StoreCache<StoredLimits> {
  #stored: ReadonlyMap<string, StoredLimits> = new Map();
  #defaults: RateLimitDefaults;
  /** Whether the configured defaults limit nothing. */
  #isOpen = true;
  /** Cached limits by principal and model. A changed key is a new principal; other changes clear the cache. */
  #scopes = new WeakMap<Principal, Map<string, readonly LimitScope[]>>();

  constructor(deps: StoreCacheDeps<StoredLimits>, defaults: RateLimitDefaults) {
    super("limits", deps);
    this.#defaults = defaults;
    this.#changed();
  }

  protected override take(list: readonly StoredLimits[]): void {
    this.#stored = new Map(list.map((stored) => [nameOf(stored.owner), stored]));
    this.#changed();
  }

  /** Applies a changed configuration to the next request. */
  setDefaults(defaults: RateLimitDefaults): void {
    this.#defaults = defaults;
    this.#changed();
  }

  /**
   * Limits of a call. Without `model`: only the limits that are known before the body is read. For an administrator only the
   * limits of the account.
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
    const scopes = this.#resolve(principal, model);
    ofCaller.set(model ?? "", scopes);
    return scopes;
  }

  /** Limits set by an administrator; null if none. Limits of keys are stored with the key. */
  storedOf(owner: LimitOwner): StoredLimits | null {
    return this.#stored.get(nameOf(owner)) ?? null;
  }

  /** The configured default limits of a key, account or model. */
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

  #resolve(principal: Principal, model: string | null): readonly LimitScope[] {
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

type CallerOf = Pick<Principal, "account" | "keyId">;

interface Page {
  readonly thresholds: readonly Threshold[];
  readonly budgets: readonly Budget[];
}

const emptyPage: Page = Object.freeze({ thresholds: Object.freeze([]), budgets: Object.freeze([]) });

/** The thresholds of one account. */
interface OfAccount {
  readonly thresholds: readonly Threshold[];
  /** Keys that have thresholds of their own. */
  readonly keyIds: ReadonlySet<string | null>;
}

/** All thresholds in memory, so that a request costs no look-up for them. */
export class ThresholdBook extends StoreCache<Threshold> {
  #byAccount: ReadonlyMap<string, OfAccount> = new Map();
  /** Thresholds per caller: by key if it has its own, else by account, so that most callers share one list. */
  #pages = new Map<string, Page>();

  constructor(deps: StoreCacheDeps<Threshold>) {
    super("thresholds", deps);
  }

  protected override take(list: readonly Threshold[]): void {
    const byAccount = groupBy(list, ({ account }) => account);
    this.#byAccount = new Map(
      Array.from(byAccount, ([account, thresholds]) => {
        const keyIds = new Set(thresholds.map(({ apiKeyId }) => apiKeyId));
        keyIds.delete(null);
        return [account, { thresholds, keyIds }];
      }),
    );
    this.#pages = new Map();
  }

  /** Thresholds of the caller's account and key. */
  thresholdsOf(caller: CallerOf): readonly Threshold[] {
    return this.#page(caller).thresholds;
  }

  /** Budgets of the caller's account and key. */
  budgetsOf(caller: CallerOf): readonly Budget[] {
    return this.#page(caller).budgets;
  }

  #page({ account, keyId }: CallerOf): Page {
    const ofAccount = this.#byAccount.get(account);
    if (ofAccount === undefined) return emptyPage;
    const name = keyId !== null && ofAccount.keyIds.has(keyId) ? keyId : `account ${account}`;
    const known = this.#pages.get(name);
    if (known !== undefined) return known;
    const thresholds = ofAccount.thresholds.filter(({ apiKeyId }) => apiKeyId === null || apiKeyId === keyId);
    const budgets = thresholds.filter(({ action }) => action === "refuse").map(toBudget);
    const page = { thresholds, budgets };
    this.#pages.set(name, page);
    return page;
  }
}

function toBudget({ id, metric, period, limit, ...of }: Threshold): Budget {
  return { id, metric, period, limit, scope: usageScopeOf(of) };
}

/** Fills the nulls of `own` with `fallback`. */
export function limitsOver(own: RateLimits, fallback: RateLimits): RateLimits {
  return {
    requestsPerMinute: own.requestsPerMinute ?? fallback.requestsPerMinute,
    tokensPerMinute: own.tokensPerMinute ?? fallback.tokensPerMinute,
    concurrency: own.concurrency ?? fallback.concurrency,
  };
}

export function isUnlimited({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): boolean {
  return requestsPerMinute === null && tokensPerMinute === null && concurrency === null;
}
