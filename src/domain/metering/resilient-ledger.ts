import type { Progress } from "../call/live-requests.js";
import type { Clock } from "../call/ports.js";
import { type LimitOwner, type LimitScope, type LimitSnapshot, windowHealsMs } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import type { StoreGate } from "../call/store-gate.js";
import type {
  Admission,
  AdmitRequest,
  Ledger,
  LostRequest,
  RefusedRequest,
  Settled,
  Settlement,
  WindowUse,
} from "./ledger.js";
import type { LocalAdmission } from "./local-admission.js";
import type { SettlementSpool } from "./spool.js";
import { Standings } from "./standing.js";

/** What happens to admissions while the shared store is away (state RL-16). */
export type WhenAway = "local" | "deny" | "allow";

export interface ResilientLedgerDeps {
  readonly inner: Ledger;
  /** Two of them: a store that is slow misses the bound of an admission and keeps that of a settlement. */
  readonly gates: { readonly admissions: StoreGate; readonly settlements: StoreGate };
  readonly spool: SettlementSpool;
  /** Decides while the store is away; null for a store that decides in this process's memory anyway. */
  readonly local: LocalAdmission | null;
  readonly whenAway: WhenAway;
  /** A full spool: refuse new requests, or go on without counting them (USE-12). */
  readonly whenFull: "refuse" | "uncounted";
  /** Processes that share the store, as last known. */
  readonly replicas: () => number;
  readonly clock: Clock;
  /** Told of a settlement that is lost because the spool is full and requests go on `uncounted`. */
  readonly onUnrecorded: (settlement: Settlement) => void;
}

const settledLater: Settled = Object.freeze({ duplicate: false, crossed: Object.freeze([]) });
/**
 * For so long after the store was away nobody is taken for dead: leases could not be renewed meanwhile, and what ended
 * waits in the spools of all processes.
 */
const catchUpMs = 30_000;
/** After which a refusal is worth another try that a share of a limit caused, and not the limit. */
const shareRetryMs = 5_000;

/**
 * A ledger that goes on while its store is slow or gone: admissions are decided here, by this process's share of each
 * limit, and settlements wait in the spool (state RL-16, USE-11). Neither waits longer for the store than the driver's
 * own bounds, 50 ms and 250 ms.
 */
export class ResilientLedger implements Ledger {
  readonly #deps: ResilientLedgerDeps;
  readonly #standings = new Standings();
  /** When something was last admitted here; what was is not in the store's windows. */
  #lastLocalAtMs = Number.NEGATIVE_INFINITY;
  /** When a sweep found the store away. */
  #sweepFailedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ResilientLedgerDeps) {
    this.#deps = deps;
  }

  admit(request: AdmitRequest): Admission | Promise<Admission> {
    const { inner, local, gates, spool, whenFull } = this.#deps;
    if (whenFull === "refuse" && spool.size >= spool.sizeMax) throw spoolIsFull(spool.sizeMax);
    if (local === null) return inner.admit(request);
    if (!gates.admissions.isOpen) return this.#admitHere(request, local);
    return this.#admitInStore(request, local);
  }

  async #admitInStore(request: AdmitRequest, local: LocalAdmission): Promise<Admission> {
    const { inner, gates, clock } = this.#deps;
    const nowMs = clock.monotonic();
    const healing = nowMs - this.#lastLocalAtMs < windowHealsMs && request.scopes.length > 0;
    let admission: Admission;
    try {
      const asked = healing ? { ...request, scopes: this.#reduced(request, local) } : request;
      admission = await inner.admit(asked);
    } catch (cause) {
      if (!isAway(cause)) throw cause;
      gates.admissions.failed(cause);
      return this.#admitHere(request, local);
    }
    gates.admissions.answered();
    if (admission.snapshot !== undefined) this.#standings.note(admission.snapshot, nowMs);
    return healing ? asIfWhole(admission, request.scopes) : admission;
  }

  /**
   * After the store's return its windows lack what was admitted without it. Each limit is lowered by that until it would
   * have left the window; the other replicas are taken to have admitted as much as this one.
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

  /** Budgets are sums that only the store knows: they are enforced again when it is back. */
  #admitHere(request: AdmitRequest, local: LocalAdmission): Admission {
    const { whenAway, clock, replicas } = this.#deps;
    if (whenAway === "deny") throw storeIsAway();
    const nowMs = clock.monotonic();
    const count = replicas();
    const scopes =
      whenAway === "allow" ? [] : request.scopes.map((scope) => this.#standings.shareOf(scope, count, nowMs));
    const admission = local.admit({ ...request, scopes, budgets: [] }, () => 0n);
    if (admission.admitted) this.#lastLocalAtMs = nowMs;
    return { ...asIfWhole(admission, request.scopes), degraded: true };
  }

  async chargeRefused(request: RefusedRequest): Promise<void> {
    const { inner, local, gates } = this.#deps;
    if (local !== null && gates.admissions.isShut) return local.chargeRefused(request);
    await inner.chargeRefused(request);
  }

  async renew(progress: readonly Progress[], leaseMs: number): Promise<void> {
    this.#deps.local?.renew(progress, leaseMs);
    await this.#deps.inner.renew(progress, leaseMs);
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const { inner, local, gates } = this.#deps;
    if (settlement.degraded) {
      const tokens = settlement.promptTokens + settlement.completionTokens;
      local?.end(settlement.requestId, { tokens, costNano: settlement.costNano });
    }
    // Whoever replays the spool finds out when the store is back: no request waits for that.
    if (gates.settlements.isShut) return await this.#spool(settlement);
    try {
      const settled = await inner.settle(settlement);
      gates.settlements.answered();
      return settled;
    } catch (cause) {
      if (!isAway(cause)) throw cause;
      gates.settlements.failed(cause);
      return await this.#spool(settlement);
    }
  }

  /** The end is noted with its time: it counts in the day in which the request ended, whenever the store is back. */
  async #spool(settlement: Settlement): Promise<Settled> {
    const { spool, clock, whenFull, onUnrecorded } = this.#deps;
    try {
      await spool.append({ ...settlement, endedAtMs: settlement.endedAtMs ?? clock.now() });
    } catch (cause) {
      if (whenFull === "refuse" || !isAway(cause)) throw cause;
      onUnrecorded(settlement);
    }
    return settledLater;
  }

  async sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]> {
    const { inner, spool, clock } = this.#deps;
    const waits = spool.size > 0 || clock.monotonic() - this.#sweepFailedAtMs < catchUpMs;
    try {
      if (!waits) return await inner.sweepLost(max, leaseMs);
      // Asked nevertheless, to learn whether it is still away.
      await inner.liveLeases();
      return [];
    } catch (cause) {
      if (isAway(cause)) this.#sweepFailedAtMs = clock.monotonic();
      throw cause;
    }
  }

  async liveLeases(): Promise<number> {
    const here = this.#deps.local?.live ?? 0;
    try {
      return here + (await this.#deps.inner.liveLeases());
    } catch (cause) {
      if (!isAway(cause)) throw cause;
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

export function isAway(cause: unknown): boolean {
  return cause instanceof ServiceError && cause.code === "storage_unavailable";
}

function storeIsAway(): ServiceError {
  return new ServiceError("storage_unavailable", "Limits cannot be checked now: the store does not answer.", {
    retryAfterMs: 1_000,
    // Nothing was done yet.
    shouldRetry: true,
  });
}

function spoolIsFull(sizeMax: number): ServiceError {
  return new ServiceError(
    "storage_unavailable",
    `The usage of ${sizeMax} finished requests waits for a store that cannot be written: there is no room for more.`,
  );
}

function lowered(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, limit - used);
}

/** An admission by lowered limits, told with the limits as they are set. */
function asIfWhole(admission: Admission, scopes: readonly LimitScope[]): Admission {
  const snapshot = admission.snapshot === undefined ? {} : { snapshot: wholeSnapshot(admission.snapshot, scopes) };
  if (admission.admitted || admission.refusal.which === "budget") return { ...admission, ...snapshot };
  const { refusal } = admission;
  const limit = limitOf(scopes, refusal.owner, refusal.which) ?? refusal.limit;
  const fits = refusal.requested <= limit;
  const retryAfterMs = refusal.retryAfterMs ?? (fits ? shareRetryMs : null);
  return { ...admission, ...snapshot, refusal: { ...refusal, limit, retryAfterMs } };
}

function wholeSnapshot({ requests, tokens }: LimitSnapshot, scopes: readonly LimitScope[]): LimitSnapshot {
  const whole = (which: "requests" | "tokens", state: LimitSnapshot["requests"]) =>
    state === undefined ? {} : { [which]: { ...state, limit: limitOf(scopes, state.owner, which) ?? state.limit } };
  return { ...whole("requests", requests), ...whole("tokens", tokens) };
}

function limitOf(
  scopes: readonly LimitScope[],
  owner: LimitOwner,
  which: "requests" | "tokens" | "concurrency",
): number | null {
  const limits = scopes.find((scope) => scope.owner.kind === owner.kind && scope.owner.id === owner.id)?.limits;
  if (limits === undefined) return null;
  if (which === "concurrency") return limits.concurrency;
  return which === "requests" ? limits.requestsPerMinute : limits.tokensPerMinute;
}
