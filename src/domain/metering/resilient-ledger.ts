import type { CircuitBreaker } from "../call/circuit-breaker.js";
import type { Progress } from "../call/live-requests.js";
import { type Clock, type Logger, pause } from "../call/ports.js";
import { type LimitOwner, type LimitScope, windowExpiryMs } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type {
  Admission,
  AdmitRequest,
  Ledger,
  LostRequest,
  RefusedRequest,
  Settled,
  Settlement,
  SettlementSpool,
  WindowUse,
} from "./ledger.js";
import { LimitUsage, lowered, withConfiguredLimits } from "./limit-shares.js";
import type { LocalAdmission } from "./local-admission.js";

/** Admission policy during an outage of the shared store (state RL-16). */
export type WhenAway = "local" | "deny" | "allow";

export interface ResilientLedgerDeps {
  readonly inner: Ledger;
  /** Separate breakers: a slow store can exceed the time bound of an admission and meet that of a settlement. */
  readonly breakers: { readonly admissions: CircuitBreaker; readonly settlements: CircuitBreaker };
  readonly spool: SettlementSpool;
  /** Local admission during an outage; null for a store that itself admits in this process's memory. */
  readonly local: LocalAdmission | null;
  readonly whenAway: WhenAway;
  /** When the spool is full: reject new requests, or continue without counting them (USE-12). */
  readonly whenFull: "refuse" | "uncounted";
  /** Number of processes that share the store, as last known. */
  readonly replicas: () => number;
  readonly clock: Clock;
  /** Called for a settlement that is lost because the spool is full and `whenFull` is `uncounted`. */
  readonly onUnrecorded: (settlement: Settlement) => void;
}

const settledLater: Settled = Object.freeze({ duplicate: false, crossed: Object.freeze([]) });
/**
 * Time after an outage during which no request counts as lost, because leases were not renewed and spools are not replayed
 * yet.
 */
const catchUpMs = 30_000;

/**
 * A ledger that survives outages of its store: admissions are decided by this process's share of each limit, and
 * settlements wait in the spool (state RL-16, USE-11). Waits for the store are bounded by the driver, at 50 ms and 250
 * ms.
 */
export class ResilientLedger implements Ledger {
  readonly #deps: ResilientLedgerDeps;
  readonly #limitUsage = new LimitUsage();
  /** Time of the last local admission; the store's windows do not contain it. */
  #lastLocalAtMs = Number.NEGATIVE_INFINITY;
  /** Time at which a sweep found the store unavailable. */
  #sweepFailedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ResilientLedgerDeps) {
    this.#deps = deps;
  }

  admit(request: AdmitRequest): Admission | Promise<Admission> {
    const { inner, local, breakers, spool, whenFull } = this.#deps;
    if (whenFull === "refuse" && spool.size >= spool.sizeMax) throw spoolIsFull(spool.sizeMax);
    if (local === null) return inner.admit(request);
    if (!breakers.admissions.allowsCall) return this.#admitHere(request, local);
    return this.#admitInStore(request, local);
  }

  async #admitInStore(request: AdmitRequest, local: LocalAdmission): Promise<Admission> {
    const { inner, breakers, clock } = this.#deps;
    const nowMs = clock.monotonic();
    const isCatchingUp = nowMs - this.#lastLocalAtMs < windowExpiryMs && request.scopes.length > 0;
    let admission: Admission;
    try {
      const reduced = isCatchingUp ? { ...request, scopes: this.#reduced(request, local) } : request;
      admission = await inner.admit(reduced);
    } catch (cause) {
      if (!isUnavailable(cause)) throw cause;
      breakers.admissions.failed(cause);
      return this.#admitHere(request, local);
    }
    breakers.admissions.succeeded();
    if (admission.snapshot !== undefined) this.#limitUsage.note(request.account, admission.snapshot, nowMs);
    return isCatchingUp ? withConfiguredLimits(admission, request.scopes) : admission;
  }

  /**
   * After a recovery the store's windows do not contain the requests that were admitted locally. Until those would have left
   * the window, each limit is lowered by them, times the number of replicas, because other replicas are assumed to have
   * admitted as many.
   */
  #reduced({ account, scopes }: AdmitRequest, local: LocalAdmission): readonly LimitScope[] {
    const replicas = this.#deps.replicas();
    const uses = local.inspect(account, scopes);
    return scopes.map(({ owner, limits }, i) => ({
      owner,
      limits: {
        requestsPerMinute: lowered(limits.requestsPerMinute, (uses[i]?.requests ?? 0) * replicas),
        tokensPerMinute: lowered(limits.tokensPerMinute, (uses[i]?.tokens ?? 0) * replicas),
        concurrency: limits.concurrency,
      },
    }));
  }

  /** Admits without the store. Budgets need the store's sums, so they are not enforced until the store has recovered. */
  #admitHere(request: AdmitRequest, local: LocalAdmission): Admission {
    const { whenAway, clock, replicas } = this.#deps;
    if (whenAway === "deny") throw storeUnavailable();
    const nowMs = clock.monotonic();
    const count = replicas();
    const shareOf = (scope: LimitScope) => this.#limitUsage.shareOf(request.account, scope, count, nowMs);
    const scopes = whenAway === "allow" ? [] : request.scopes.map(shareOf);
    const admission = local.admit({ ...request, scopes, budgets: [] }, () => 0n);
    if (admission.admitted) this.#lastLocalAtMs = nowMs;
    return { ...withConfiguredLimits(admission, request.scopes), degraded: true };
  }

  async chargeRefused(request: RefusedRequest): Promise<void> {
    const { inner, local, breakers } = this.#deps;
    if (local !== null && breakers.admissions.isOpen) return local.chargeRefused(request);
    await inner.chargeRefused(request);
  }

  answerBegins(): void {
    this.#deps.inner.answerBegins();
  }

  async renew(progress: readonly Progress[], leaseMs: number): Promise<void> {
    this.#deps.local?.renew(progress, leaseMs);
    await this.#deps.inner.renew(progress, leaseMs);
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const { inner, local, breakers } = this.#deps;
    if (settlement.degraded) {
      const tokens = settlement.promptTokens + settlement.completionTokens;
      local?.end(settlement.requestId, { tokens, costNano: settlement.costNano });
    }
    // The replay of the spool detects when the store has recovered, so no request has to wait for a probe of the store.
    if (breakers.settlements.isOpen) return await this.#spool(settlement);
    try {
      const settled = await inner.settle(settlement);
      breakers.settlements.succeeded();
      return settled;
    } catch (cause) {
      if (!isUnavailable(cause)) throw cause;
      breakers.settlements.failed(cause);
      return await this.#spool(settlement);
    }
  }

  /** Spools a settlement with its end time, so that its usage counts in the right hour, day and month. */
  async #spool(settlement: Settlement): Promise<Settled> {
    const { spool, clock, whenFull, onUnrecorded } = this.#deps;
    try {
      await spool.append({ ...settlement, endedAtMs: settlement.endedAtMs ?? clock.now() });
    } catch (cause) {
      if (whenFull === "refuse" || !isUnavailable(cause)) throw cause;
      onUnrecorded(settlement);
    }
    return settledLater;
  }

  async sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]> {
    const { inner, spool, clock } = this.#deps;
    const isReplaying = spool.size > 0 || clock.monotonic() - this.#sweepFailedAtMs < catchUpMs;
    try {
      if (!isReplaying) return await inner.sweepLost(max, leaseMs);
      // Called to probe the store.
      await inner.liveLeases();
      return [];
    } catch (cause) {
      if (isUnavailable(cause)) this.#sweepFailedAtMs = clock.monotonic();
      throw cause;
    }
  }

  async liveLeases(): Promise<number> {
    const here = this.#deps.local?.live ?? 0;
    try {
      return here + (await this.#deps.inner.liveLeases());
    } catch (cause) {
      if (!isUnavailable(cause)) throw cause;
      return here;
    }
  }

  async resetWindow(account: string, owner: LimitOwner): Promise<void> {
    this.#deps.local?.resetWindow(account, owner);
    await this.#deps.inner.resetWindow(account, owner);
  }

  inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]> {
    return this.#deps.inner.inspect(account, scopes);
  }
}

function isUnavailable(cause: unknown): boolean {
  return cause instanceof ServiceError && cause.code === "storage_unavailable";
}

function storeUnavailable(): ServiceError {
  return new ServiceError("storage_unavailable", "Limits cannot be checked now: the store does not answer.", {
    retryAfterMs: 1_000,
    // The request was not run, so a retry is safe.
    shouldRetry: true,
  });
}

function spoolIsFull(sizeMax: number): ServiceError {
  return new ServiceError(
    "storage_unavailable",
    `The usage of ${sizeMax} finished requests waits for a store that cannot be written: there is no room for more.`,
  );
}

export interface SpoolReplayDeps {
  /** The ledger of the store itself, not the ResilientLedger that spools. */
  readonly ledger: Pick<Ledger, "settle">;
  readonly spool: SettlementSpool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the store has accepted settlements again, within `promptMs`. */
  readonly onAnswered: () => void;
  /** Requests wait no longer than this for the store; a slower one gets all settlements from the spool. */
  readonly promptMs: number;
}

/** Interval between two attempts to replay the spool. */
const replayEveryMs = 250;
/** Concurrent settlements: enough to fill a group commit or a script call. */
const batchMax = 64;
/** Interval of the log line while settlements are only in memory. */
const reportEveryMs = 60_000;
/** Maximum time for which `close` tries to write the settlements that are only in memory to the disk or the store. */
const closeWaitMs = 10_000;

/**
 * Writes spooled settlements to the store, the oldest first, once it is available again (USE-11). The store ignores a
 * request id that it already has, so an interrupted replay is harmless.
 */
export class SpoolReplay {
  readonly #deps: SpoolReplayDeps;
  #cancelTimer: () => void;
  #round: Promise<void> = Promise.resolve();
  #closed = false;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: SpoolReplayDeps) {
    this.#deps = deps;
    this.#cancelTimer = this.#later();
  }

  /** Waits for the running round, and then up to 10 s until no settlement is only in memory (E-21). */
  async close(): Promise<void> {
    const { spool, clock } = this.#deps;
    const untilMs = clock.monotonic() + closeWaitMs;
    this.#cancelTimer();
    this.#closed = true;
    await this.#round;
    while (spool.memoryOnly > 0 && clock.monotonic() < untilMs) {
      this.#report();
      await this.#replayAll();
      await spool.persist();
      if (spool.memoryOnly > 0) await pause(clock, replayEveryMs);
    }
  }

  #later(): () => void {
    return this.#deps.clock.after(replayEveryMs, () => {
      this.#round = this.#step().finally(() => {
        if (!this.#closed) this.#cancelTimer = this.#later();
      });
    });
  }

  async #step(): Promise<void> {
    this.#report();
    await this.#replayAll(() => this.#closed);
    const { spool } = this.#deps;
    // The spool itself detects a recovered disk only at the next append.
    if (spool.memoryOnly > 0 && !this.#closed) await spool.persist();
  }

  #report(): void {
    const { spool, clock, log } = this.#deps;
    if (spool.memoryOnly === 0 || clock.monotonic() - this.#reportedAtMs < reportEveryMs) return;
    this.#reportedAtMs = clock.monotonic();
    log.error(
      { settlements: spool.memoryOnly, fault: spool.fault },
      "the usage of finished requests is in memory only: make the data folder writable before a restart",
    );
  }

  /**
   * Never rejects. Settlements that cannot be stored stay in the spool; the circuit breaker logs that the store is
   * unavailable.
   */
  async #replayAll(isCancelled = (): boolean => false): Promise<void> {
    const { ledger, spool, clock, log, onAnswered, promptMs } = this.#deps;
    const before = spool.size;
    if (before === 0) return;
    try {
      for (;;) {
        const batch = isCancelled() ? [] : await spool.oldest(batchMax);
        const last = batch.at(-1);
        if (last === undefined) break;
        const startedAtMs = clock.monotonic();
        await Promise.all(batch.map(({ settlement }) => ledger.settle(settlement, true)));
        if (clock.monotonic() - startedAtMs <= promptMs) onAnswered();
        await spool.release(last.end);
      }
    } catch (err) {
      log.debug({ err, waiting: spool.size }, "spooled settlements could not be replayed; retrying");
      return;
    }
    if (spool.size === 0) log.info({ settlements: before }, "spool is empty again");
  }
}
