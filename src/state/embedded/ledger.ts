import type { Clock } from "../../domain/call/ports.js";
import { invariant } from "../../domain/call/service-error.js";
import { type Period, type PeriodKind, periodAt, type UsageScope, type UsageSums } from "../../domain/events/events.js";
import type {
  Admission,
  AdmitRequest,
  Budget,
  Ledger,
  LostRequest,
  Settled,
  Settlement,
} from "../../domain/metering/ledger.js";
import { LocalAdmission } from "../../domain/metering/local-admission.js";
import type { UsageReader } from "../../domain/metering/usage-store.js";
import type { StoreTime } from "../../lib/clock.js";
import { BoundedMap } from "../../lib/collections.js";
import type { RunningRequests } from "./database/running-requests.js";
import type { MovedSum, NewSettlement, SettledRow } from "./database/settlement-row.js";
import type { StoreLink } from "./database/worker-link.js";
import type { SettlementVerbs } from "./settlements.js";

const leasesMax = 100_000;

const settledOnce: Settled = Object.freeze({ duplicate: false, crossed: [] });
const duplicate: Settled = Object.freeze({ duplicate: true, crossed: [] });
const withoutBudgets = (): bigint => 0n;

export interface SettleLink extends StoreLink<SettlementVerbs> {
  /**
   * Writes a settlement, see WorkerLink. Null: the settlement was only added to sums in memory, and the ledger itself must
   * reject repeated ones.
   */
  settle(settlement: NewSettlement): Promise<SettledRow | null> | null;
}

export interface EmbeddedLedgerDeps {
  readonly link: SettleLink;
  readonly clock: Clock;
  readonly time: StoreTime;
  /** Requests that were running when the previous process ended. */
  readonly former: readonly LostRequest[];
  /** Records running requests for the next process; null for state in memory. */
  readonly running: RunningRequests | null;
  readonly readUsed: UsageReader["used"];
  /** Called after the commit of a settlement whose event has a receiver. */
  onDue(): void;
}

/**
 * The ledger of one process: admissions are decided synchronously in memory, and after a restart all rate limit windows are
 * empty (state RL-20). Settlements are written and synced in batches. With state in memory, a settlement without event,
 * threshold and budget only adds to sums.
 */
export function createEmbeddedLedger(deps: EmbeddedLedgerDeps): Ledger {
  const { link, clock, time, running, readUsed, onDue } = deps;
  const admission = new LocalAdmission({ monotonic: () => clock.monotonic(), now: time.now }, leasesMax);
  /** Former requests that are not settled, with the end of the sweep's lease on the monotonic clock. */
  const former = new Map(deps.former.map((request) => [request.requestId, { request, leasedUntilMs: 0 }]));
  const budgets = new BudgetSums(readUsed);
  const usedOf = (budget: Budget): bigint => budgets.usedOf(budget);

  const decide = (request: AdmitRequest, used: (budget: Budget) => bigint): Admission => {
    const liveBefore = admission.live;
    const decision = admission.admit(request, used);
    // The row of a repeated request exists already.
    if (running !== null && admission.live > liveBefore) {
      const { requestId, account, keyId, model, operation, promptTokens } = request;
      const admittedAtMs = time.now();
      running.begin({ requestId, account, keyId, model, operation, promptTokens, completionTokens: 0, admittedAtMs });
    }
    return decision;
  };

  const admit = (request: AdmitRequest): Admission | Promise<Admission> => {
    if (request.budgets.length === 0) return decide(request, withoutBudgets);
    const loading = budgets.prepare(request.account, request.budgets, time.now());
    // The budgets are prepared again after loading, because a new period may have begun in the meantime.
    return loading === null ? decide(request, usedOf) : loading.then(() => admit(request));
  };

  return {
    admit,
    async chargeRefused(request) {
      admission.chargeRefused(request);
    },
    answerBegins() {
      running?.record();
    },
    async renew(progress, leaseMs) {
      admission.renew(progress, leaseMs);
      if (progress.length === 0) return;
      // The rows that the progress belongs to are in this batch or an earlier one.
      running?.record();
      await link.write("noteProgress", progress);
    },
    settle(settlement) {
      const { requestId, promptTokens, completionTokens, costNano } = settlement;
      checkCounts(settlement);
      const nowMs = time.now();
      const endedAtMs = settlement.endedAtMs === null ? nowMs : Math.min(settlement.endedAtMs, nowMs);
      const touched = budgets.begin(settlement, endedAtMs);
      const charge = settlement.degraded ? null : { tokens: promptTokens + completionTokens, costNano };
      const wasLive = admission.end(requestId, charge) !== null;
      const hasRow = running !== null && !running.end(requestId);
      if (running === null && !wasLive && !admission.noteEnded(requestId)) {
        budgets.finish(touched, settlement, []);
        return duplicate;
      }
      const settling = link.settle({ settlement, nowMs, endedAtMs, hasRow, wantsSums: touched.length > 0 });
      if (settling === null) return settledOnce;
      return settling.then(
        (row) => {
          former.delete(requestId);
          budgets.finish(touched, settlement, row?.sums ?? []);
          if (row?.hasDue) onDue();
          if (row?.duplicate) return duplicate;
          return row === null || row.crossed.length === 0 ? settledOnce : { duplicate: false, crossed: row.crossed };
        },
        (error: unknown) => {
          budgets.finish(touched, settlement, []);
          throw error;
        },
      );
    },
    async sweepLost(max, leaseMs) {
      const nowMs = clock.monotonic();
      const lost: LostRequest[] = [];
      for (const left of former.values()) {
        if (lost.length >= max) break;
        if (left.leasedUntilMs > nowMs) continue;
        left.leasedUntilMs = nowMs + leaseMs;
        lost.push(left.request);
      }
      return [...lost, ...admission.sweep(max - lost.length, leaseMs)];
    },
    liveLeases: async () => admission.live,
    async resetWindow(account, owner) {
      admission.resetWindow(account, owner);
    },
    inspect: async (account, scopes) => admission.inspect(account, scopes),
  };
}

function checkCounts({ promptTokens, completionTokens, cachedTokens, costNano }: Settlement): void {
  invariant(isCount(promptTokens), "promptTokens is a count");
  invariant(isCount(completionTokens), "completionTokens is a count");
  invariant(isCount(cachedTokens), "cachedTokens is a count");
  invariant(isCount(costNano), "costNano is a count");
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/**
 * Maximum number of cached sums: twice the maximum of thresholds, so that sums in use stay cached when thresholds were
 * removed.
 */
const trackedMax = 40_000;
const noneTracked: readonly Tracked[] = [];

/** The sums of one account or key in its current period. */
interface Tracked {
  readonly startMs: number;
  /** Null once the sums are known. */
  loading: Promise<void> | null;
  /** Sums as stored. */
  requests: bigint;
  tokens: bigint;
  cost: bigint;
  /** Sums of settlements that are being written. They count already, so that a budget is never exceeded by them. */
  unwritten: { requests: bigint; tokens: bigint; cost: bigint };
}

/**
 * Cache of the sums of budgets, so that an admission does not read the database. A sum is read once, when a budget first
 * needs it; afterwards settlements update it.
 */
export class BudgetSums {
  readonly #read: UsageReader["used"];
  readonly #tracked = new BoundedMap<string, Tracked>(trackedMax);
  /** The sums that `finish` applied last: the settlements of a batch share one list. */
  #moved: readonly MovedSum[] = [];

  constructor(read: UsageReader["used"]) {
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

  /** Used amount of a budget; 0 if the budget is not prepared. */
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

  /** Ends what `begin` started. `moved`: sums after the batch of the settlement; empty if the settlement added nothing. */
  finish(touched: readonly Tracked[], settlement: Settlement, moved: readonly MovedSum[]): void {
    for (const { unwritten } of touched) add(unwritten, settlement, -1n);
    if (moved === this.#moved) return;
    this.#moved = moved;
    for (const { kind, id, period, sums } of moved) {
      const tracked = this.#tracked.get(nameOf(kind, id, period.kind));
      if (tracked?.startMs === period.startMs) raise(tracked, sums);
    }
  }

  #load(account: string, scope: UsageScope, period: Period): Promise<void> | null {
    const name = nameOf(scope.kind, scope.id, period.kind);
    const known = this.#tracked.get(name);
    if (known?.startMs === period.startMs) return known.loading;
    const none = { requests: 0n, tokens: 0n, cost: 0n };
    const tracked: Tracked = { startMs: period.startMs, loading: null, ...none, unwritten: { ...none } };
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

/**
 * Replaces cached sums by larger ones. Sums only grow, so the larger of two values is the later one, whatever their order
 * of arrival.
 */
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
