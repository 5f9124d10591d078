import {
  type Period,
  type PeriodKind,
  periodAt,
  type UsageScope,
  type UsageSums,
} from "../../domain/events/threshold.js";
import type { Budget, Settlement } from "../../domain/metering/ledger.js";
import { BoundedMap } from "../../lib/bounded-collections.js";
import type { MovedSum } from "./settlements.js";

/** Twice the thresholds that a store keeps: those in use stay when others have gone. */
const trackedMax = 40_000;
const noneTracked: readonly Tracked[] = [];

/** The sums of one account or key in its current period. */
interface Tracked {
  readonly startMs: number;
  /** Null: known. Resolves when it is. */
  loading: Promise<void> | null;
  /** As the file has them. */
  requests: bigint;
  tokens: bigint;
  cost: bigint;
  /** Of settlements that are being written: counting them early is allowed, counting them late is not. */
  unwritten: { requests: bigint; tokens: bigint; cost: bigint };
}

/**
 * Cache of the sums that budgets are compared with, so that an admission reads no file. A sum is read once, when a budget
 * first needs it; settlements keep it up to date.
 */
export class BudgetSums {
  readonly #read: (account: string, scope: UsageScope, period: Period) => Promise<UsageSums>;
  readonly #tracked = new BoundedMap<string, Tracked>(trackedMax);

  constructor(read: (account: string, scope: UsageScope, period: Period) => Promise<UsageSums>) {
    this.#read = read;
  }

  /** Null when all sums of these budgets are loaded. Rejects with `storage_unavailable`. */
  prepare(account: string, budgets: readonly Budget[], atMs: number): Promise<unknown> | null {
    let loading: Promise<void>[] | null = null;
    for (const budget of budgets) {
      const wait = this.#load(account, budget.scope, periodAt(budget.period, atMs));
      if (wait !== null) loading = [...(loading ?? []), wait];
    }
    return loading === null ? null : Promise.all(loading);
  }

  /** 0 for one that is not prepared. */
  usedOf({ scope, period, metric }: Budget): bigint {
    const tracked = this.#tracked.get(nameOf(scope.kind, scope.id, period));
    return tracked === undefined ? 0n : tracked[metric] + tracked.unwritten[metric];
  }

  /** Counts a settlement that is being written. Pass the result to `finish`, however the settlement ends. */
  begin(settlement: Settlement, atMs: number): readonly Tracked[] {
    if (this.#tracked.size === 0) return noneTracked;
    const touched = this.#trackedBy(settlement, atMs);
    for (const { unwritten } of touched) add(unwritten, settlement, 1n);
    return touched;
  }

  /** `moved`: the sums as the settlement left them; empty when it added nothing. */
  finish(touched: readonly Tracked[], settlement: Settlement, moved: readonly MovedSum[]): void {
    for (const { unwritten } of touched) add(unwritten, settlement, -1n);
    for (const { kind, period, sums } of moved) {
      const id = kind === "account" ? settlement.account : settlement.keyId;
      const tracked = id === null ? undefined : this.#tracked.get(nameOf(kind, id, period.kind));
      if (tracked?.startMs === period.startMs) raise(tracked, sums);
    }
  }

  #load(account: string, scope: UsageScope, period: Period): Promise<void> | null {
    const name = nameOf(scope.kind, scope.id, period.kind);
    const known = this.#tracked.get(name);
    if (known?.startMs === period.startMs) return known.loading;
    const tracked: Tracked = {
      startMs: period.startMs,
      loading: null,
      requests: 0n,
      tokens: 0n,
      cost: 0n,
      unwritten: { requests: 0n, tokens: 0n, cost: 0n },
    };
    tracked.loading = this.#read(account, scope, period).then(
      (sums) => {
        raise(tracked, sums);
        tracked.loading = null;
      },
      (error: unknown) => {
        this.#tracked.delete(name);
        throw error;
      },
    );
    this.#tracked.set(name, tracked);
    return tracked.loading;
  }

  #trackedBy({ account, keyId }: Settlement, atMs: number): Tracked[] {
    const touched: Tracked[] = [];
    for (const kind of ["day", "month"] as const) {
      const { startMs } = periodAt(kind, atMs);
      const ofAccount = this.#tracked.get(nameOf("account", account, kind));
      if (ofAccount?.startMs === startMs) touched.push(ofAccount);
      const ofKey = keyId === null ? undefined : this.#tracked.get(nameOf("key", keyId, kind));
      if (ofKey?.startMs === startMs) touched.push(ofKey);
    }
    return touched;
  }
}

function nameOf(scopeKind: UsageScope["kind"], scopeId: string, periodKind: PeriodKind): string {
  return `${scopeKind}\n${scopeId}\n${periodKind}`;
}

/** Sums only grow, so of two readings the larger is the later one, in whatever order they arrive. */
function raise(tracked: Tracked, { requests, promptTokens, completionTokens, costNano }: UsageSums): void {
  if (requests < tracked.requests) return;
  tracked.requests = requests;
  tracked.tokens = promptTokens + completionTokens;
  tracked.cost = costNano;
}

function add(
  sums: Tracked["unwritten"],
  { promptTokens, completionTokens, costNano }: Settlement,
  sign: 1n | -1n,
): void {
  sums.requests += sign;
  sums.tokens += sign * BigInt(promptTokens + completionTokens);
  sums.cost += sign * BigInt(costNano);
}
