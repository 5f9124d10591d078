import type { ChangeFeed, Clock, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import { type Threshold, type ThresholdStore, usageScopeOf } from "../events/threshold.js";
import type { Budget } from "./ledger.js";
import { RefreshingCache } from "./refreshing-cache.js";

export interface ThresholdBookDeps {
  readonly store: Pick<ThresholdStore, "list">;
  readonly changes: ChangeFeed;
  readonly clock: Clock;
  readonly log: Logger;
}

type CallerOf = Pick<Principal, "account" | "keyId">;

interface Page {
  readonly thresholds: readonly Threshold[];
  readonly budgets: readonly Budget[];
}

const emptyPage: Page = Object.freeze({ thresholds: Object.freeze([]), budgets: Object.freeze([]) });

/** All thresholds in memory, so that a request costs no look-up for them. */
export class ThresholdBook {
  readonly #copy: RefreshingCache<readonly Threshold[]>;
  #byAccount: ReadonlyMap<string, readonly Threshold[]> = new Map();
  /** Thresholds per caller, by key or account; cleared on each read. */
  #pages = new Map<string, Page>();

  constructor({ store, ...deps }: ThresholdBookDeps) {
    const take = (thresholds: readonly Threshold[]): void => {
      this.#byAccount = groupBy(thresholds, ({ account }) => account);
      this.#pages = new Map();
    };
    this.#copy = new RefreshingCache({ ...deps, kind: "thresholds", read: () => store.list(), take });
  }

  /** Reads all thresholds; resolves also when the store does not answer, which is logged. */
  refresh(): Promise<void> {
    return this.#copy.refresh();
  }

  close(): void {
    this.#copy.close();
  }

  /** Thresholds of the caller's account and key. */
  thresholdsOf(caller: CallerOf): readonly Threshold[] {
    return this.#page(caller).thresholds;
  }

  /** Budgets among them. */
  budgetsOf(caller: CallerOf): readonly Budget[] {
    return this.#page(caller).budgets;
  }

  #page({ account, keyId }: CallerOf): Page {
    const ofAccount = this.#byAccount.get(account);
    if (ofAccount === undefined) return emptyPage;
    const name = keyId ?? `account ${account}`;
    const known = this.#pages.get(name);
    if (known !== undefined) return known;
    const thresholds = ofAccount.filter(({ apiKeyId }) => apiKeyId === null || apiKeyId === keyId);
    const budgets = thresholds.filter(({ action }) => action === "refuse").map(toBudget);
    const page = { thresholds, budgets };
    this.#pages.set(name, page);
    return page;
  }
}

function toBudget({ id, metric, period, limit, ...of }: Threshold): Budget {
  return { id, metric, period, limit, scope: usageScopeOf(of) };
}

/** Items by key, each group in the order of the items; what `Map.groupBy` does from Node 21 on. */
export function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
