import type { Progress } from "../../domain/call/live-requests.js";
import type { Clock } from "../../domain/call/ports.js";
import type { LimitOwner, LimitScope } from "../../domain/call/rate-limits.js";
import { invariant } from "../../domain/call/service-error.js";
import type {
  Admission,
  AdmitRequest,
  Budget,
  Ledger,
  LostRequest,
  RefusedRequest,
  Settled,
  Settlement,
  WindowUse,
} from "../../domain/metering/ledger.js";
import { LocalAdmission } from "../../domain/metering/local-admission.js";
import { BudgetSums } from "./budget-sums.js";
import type { RunningRequests } from "./running-requests.js";
import type { SettledFacts, SettledRow } from "./settlements.js";
import type { StoreLink } from "./worker-link.js";

const leasesMax = 100_000;

const settledOnce: Settled = Object.freeze({ duplicate: false, crossed: [] });
const duplicate: Settled = Object.freeze({ duplicate: true, crossed: [] });
const withoutBudgets = (): bigint => 0n;

export interface EmbeddedLedgerDeps {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly time: StoreTime;
  /** What the process before this one left running. */
  readonly former: readonly LostRequest[];
  /** Records running requests for the next process; null for state in memory. */
  readonly running: RunningRequests | null;
  /** Called after the commit of a settlement that made deliveries. */
  onDue(): void;
}

/**
 * The ledger of one process: admissions are decided in memory, so they cost no wait, and a restart begins with empty
 * windows (state RL-20). Settlements are written and synced. With state in memory, a settlement that has no event, no
 * threshold and no budget only adds to sums.
 */
export class EmbeddedLedger implements Ledger {
  readonly #link: StoreLink;
  readonly #clock: Clock;
  readonly #time: StoreTime;
  readonly #admission: LocalAdmission;
  readonly #former: FormerRequests;
  readonly #running: RunningRequests | null;
  readonly #onDue: () => void;
  readonly #budgets: BudgetSums;

  constructor({ link, clock, time, former, running, onDue }: EmbeddedLedgerDeps) {
    this.#link = link;
    this.#clock = clock;
    this.#time = time;
    this.#admission = new LocalAdmission({
      clock: { monotonic: () => clock.monotonic(), now: () => time.now() },
      leasesMax,
    });
    this.#former = new FormerRequests(former);
    this.#running = running;
    this.#onDue = onDue;
    this.#budgets = new BudgetSums((account, scope, period) => link.read("used", account, scope, period));
  }

  admit(request: AdmitRequest): Admission | Promise<Admission> {
    if (request.budgets.length === 0) return this.#decide(request, withoutBudgets);
    const loading = this.#budgets.prepare(request.account, request.budgets, this.#time.now());
    // Asked again: meanwhile a period may have begun.
    if (loading !== null) return loading.then(() => this.admit(request));
    return this.#decide(request, (budget) => this.#budgets.usedOf(budget));
  }

  async chargeRefused(request: RefusedRequest): Promise<void> {
    this.#admission.chargeRefused(request);
  }

  async renew(progress: readonly Progress[], leaseMs: number): Promise<void> {
    this.#admission.renew(progress, leaseMs);
    if (progress.length > 0) await this.#link.write("noteProgress", progress);
  }

  settle(settlement: Settlement): Settled | Promise<Settled> {
    const { requestId, promptTokens, completionTokens, costNano, event, thresholds } = settlement;
    checkCounts(settlement);
    const nowMs = this.#time.now();
    const endedAtMs = settlement.endedAtMs === null ? nowMs : Math.min(settlement.endedAtMs, nowMs);
    const touched = this.#budgets.begin(settlement, endedAtMs);
    const charge = settlement.degraded ? null : { tokens: promptTokens + completionTokens, costNano };
    const wasLive = this.#admission.end(requestId, charge) !== null;
    this.#running?.end(requestId);
    if (this.#running === null && !wasLive && !this.#admission.noteEnded(requestId)) {
      this.#budgets.finish(touched, settlement, []);
      return duplicate;
    }
    if (event === null && thresholds.length === 0 && touched.length === 0) {
      const { account, keyId, model, cachedTokens } = settlement;
      const row = [requestId, account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano] as const;
      const wasSettled = this.#link.settleUsage([...row, nowMs, endedAtMs]);
      if (!(wasSettled instanceof Promise)) return settledOnce;
      return wasSettled.then((isDuplicate) => {
        this.#former.remove(requestId);
        return isDuplicate ? duplicate : settledOnce;
      });
    }
    return this.#link.write("settle", factsOf(settlement), { nowMs, endedAtMs }, touched.length > 0).then(
      (row) => {
        this.#budgets.finish(touched, settlement, row?.sums ?? []);
        this.#former.remove(requestId);
        if (row?.hasDue) this.#onDue();
        return toSettled(row);
      },
      (error: unknown) => {
        this.#budgets.finish(touched, settlement, []);
        throw error;
      },
    );
  }

  async sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]> {
    const former = this.#former.sweep(max, leaseMs, this.#clock.monotonic());
    return [...former, ...this.#admission.sweep(max - former.length, leaseMs)];
  }

  async liveLeases(): Promise<number> {
    return this.#admission.live;
  }

  async resetWindow(account: string, owner: LimitOwner): Promise<void> {
    this.#admission.resetWindow(account, owner);
  }

  async inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]> {
    return this.#admission.inspect(account, scopes);
  }

  #decide(request: AdmitRequest, usedOf: (budget: Budget) => bigint): Admission {
    const liveBefore = this.#admission.live;
    const admission = this.#admission.admit(request, usedOf);
    // Not when it ran already: its row is there.
    if (this.#running !== null && this.#admission.live > liveBefore) this.#noteLive(request);
    return admission;
  }

  #noteLive({ requestId, account, keyId, model, operation, promptTokens }: AdmitRequest): void {
    const admittedAtMs = this.#time.now();
    const row = { requestId, account, keyId, model, operation, promptTokens, completionTokens: 0, admittedAtMs };
    this.#running?.begin(row);
  }
}

function factsOf(settlement: Settlement): SettledFacts {
  const { requestId, account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano } = settlement;
  const { event, thresholds } = settlement;
  return {
    requestId,
    account,
    keyId,
    model,
    promptTokens,
    completionTokens,
    cachedTokens,
    costNano,
    event,
    thresholds,
  };
}

function toSettled(row: SettledRow | null): Settled {
  return row === null ? settledOnce : { duplicate: row.duplicate, crossed: row.crossed };
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

interface Left {
  readonly request: LostRequest;
  /** End of the lease of the sweep that is settling it, on the monotonic clock. */
  leasedUntilMs: number;
}

/** Requests that were running when the previous process died. The first sweep returns them. */
export class FormerRequests {
  readonly #left = new Map<string, Left>();

  constructor(requests: readonly LostRequest[]) {
    for (const request of requests) this.#left.set(request.requestId, { request, leasedUntilMs: 0 });
  }

  /** At most `max` requests without a lease; each is leased for `leaseMs`. */
  sweep(max: number, leaseMs: number, nowMs: number): LostRequest[] {
    const lost: LostRequest[] = [];
    for (const left of this.#left.values()) {
      if (lost.length >= max) break;
      if (left.leasedUntilMs > nowMs) continue;
      left.leasedUntilMs = nowMs + leaseMs;
      lost.push(left.request);
    }
    return lost;
  }

  /** Call it when a request is settled. Other ids have no effect. */
  remove(requestId: string): void {
    this.#left.delete(requestId);
  }
}

/**
 * Wall-clock time that never goes back, neither when the machine's clock is set back nor over a restart: it starts at the
 * newest settlement of the file. While it is ahead of the clock it runs at half speed, so that the clock catches up.
 */
export class StoreTime {
  readonly #clock: Clock;
  #wallMs: number;
  #monotonicMs: number;

  constructor(clock: Clock, seenAtMs: number) {
    this.#clock = clock;
    this.#wallMs = Math.max(seenAtMs, clock.now());
    this.#monotonicMs = clock.monotonic();
  }

  /** Whole milliseconds since 1970. */
  now(): number {
    const monotonicMs = this.#clock.monotonic();
    const slowMs = this.#wallMs + (monotonicMs - this.#monotonicMs) / 2;
    this.#monotonicMs = monotonicMs;
    this.#wallMs = Math.max(this.#clock.now(), slowMs);
    return Math.floor(this.#wallMs);
  }

  /** Lead over the machine's clock, which was set back; 0 otherwise. */
  aheadMs(): number {
    return this.now() - this.#clock.now();
  }
}
