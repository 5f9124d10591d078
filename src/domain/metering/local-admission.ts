import type { Progress } from "../call/live-requests.js";
import type { Clock } from "../call/ports.js";
import type { LimitOwner, LimitScope } from "../call/rate-limits.js";
import { ServiceError } from "../call/service-error.js";
import { type BudgetHold, BudgetReservations } from "./budget-reservations.js";
import type {
  Admission,
  AdmitRequest,
  Admitted,
  Budget,
  Charge,
  LostRequest,
  RefusedRequest,
  WindowUse,
} from "./ledger.js";
import {
  type OwnerWindows,
  refusalOf,
  type ScopeUse,
  type SlidingWindow,
  snapshotOf,
  WindowTable,
} from "./limit-windows.js";

/** An admitted request until its end. */
export interface LiveRecord {
  readonly request: AdmitRequest;
  /** The tokens as reported by the last `renew`. */
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Charge of a request to the windows of one key, account or model. */
interface HeldWindow {
  readonly use: OwnerWindows;
  /** The window with its tokens; null without a token limit. */
  readonly tokens: SlidingWindow | null;
  readonly bucket: number;
}

interface Lease extends LiveRecord {
  readonly admission: Admitted;
  readonly windows: readonly HeldWindow[];
  readonly budgets: BudgetHold;
  /** Times on the monotonic clock. */
  readonly admittedAtMs: number;
  endsAtMs: number;
  promptTokens: number;
  completionTokens: number;
}

/**
 * Number of ended requests that are remembered to detect repeated calls, which arrive soon after the first. A larger table
 * would not fit the processor's cache.
 */
const endedMax = 500;
/** Windows checked per admission and per sweep, to remove idle ones. */
const checkedPerAdmission = 4;
const checkedPerSweep = 50_000;

const admitted: Admitted = Object.freeze({ admitted: true, degraded: false });
const noWindows: readonly HeldWindow[] = [];
const noBudgets: BudgetHold = [];

/** Admission in the memory of one process: windows, running requests, reservations. */
export class LocalAdmission {
  /**
   * Windows and leases use `monotonic`, so that a step of the wall clock does not affect them; `now` selects the period of a
   * budget.
   */
  readonly #clock: Pick<Clock, "monotonic" | "now">;
  readonly #leasesMax: number;
  /** By request id: the lease of a running request, null for an ended one. One table for both saves a look-up. */
  readonly #known = new Map<string, Lease | null>();
  /** Number of held leases. */
  live = 0;
  /** Ring buffer of the ids of ended requests. */
  readonly #ended: string[] = [];
  #endedAt = 0;
  readonly #windows = new WindowTable();
  readonly #budgets = new BudgetReservations();

  /** `leasesMax`: maximum concurrent requests. */
  constructor(clock: Pick<Clock, "monotonic" | "now">, leasesMax: number) {
    this.#clock = clock;
    this.#leasesMax = leasesMax;
  }

  /** Number of keys, accounts and models with rate limit windows. */
  get owners(): number {
    return this.#windows.size;
  }

  /** `usedOf`: settled usage of a budget's current period. Throws `server_is_overloaded` beyond `leasesMax` leases. */
  admit(request: AdmitRequest, usedOf: (budget: Budget) => bigint): Admission {
    const { requestId, scopes, budgets } = request;
    const known = this.#known.get(requestId);
    if (known !== undefined) return known === null ? admitted : known.admission;
    if (this.live >= this.#leasesMax) {
      const message = `${this.#leasesMax} requests are running.`;
      throw new ServiceError("server_is_overloaded", message, { retryAfterMs: 1_000 });
    }
    const nowMs = this.#clock.monotonic();
    if (scopes.length > 0 || budgets.length > 0) return this.#decide(request, usedOf, nowMs);
    return this.#hold(request, admitted, noWindows, noBudgets, nowMs);
  }

  /** Charges one request and no tokens, once per id and even above the limit (state RL-14). */
  chargeRefused({ requestId, account, scopes }: RefusedRequest): void {
    if (!this.noteEnded(requestId)) return;
    const nowMs = this.#clock.monotonic();
    for (const { owner, limits } of scopes) {
      if (limits.requestsPerMinute !== null) this.#windows.of(account, owner).requests.add(nowMs, 1);
    }
  }

  renew(progress: readonly Progress[], leaseMs: number): void {
    const endsAtMs = this.#clock.monotonic() + leaseMs;
    for (const { requestId, promptTokens, completionTokens } of progress) {
      const lease = this.#known.get(requestId) ?? null;
      if (lease !== null) Object.assign(lease, { endsAtMs, promptTokens, completionTokens });
    }
  }

  /**
   * Ends a running request: releases its concurrency and reservations and corrects its windows to `actual` (null: no
   * correction). Returns null for a request that does not run here.
   */
  end(requestId: string, actual: Charge | null): LiveRecord | null {
    const lease = this.#known.get(requestId) ?? null;
    if (lease === null) return null;
    this.live -= 1;
    this.#remember(requestId);
    if (lease.windows.length > 0) this.#settleWindows(lease, actual);
    if (lease.budgets.length > 0) this.#budgets.release(lease.budgets, lease.request.reserve);
    return lease;
  }

  /** Records the end of an unknown request; false for one that runs or is among the last 500 ended ones. */
  noteEnded(requestId: string): boolean {
    if (this.#known.has(requestId)) return false;
    this.#remember(requestId);
    return true;
  }

  /** Returns at most `max` requests with an expired lease; each gets a new lease for `leaseMs`. */
  sweep(max: number, leaseMs: number): LostRequest[] {
    const nowMs = this.#clock.monotonic();
    this.#windows.dropIdle(nowMs, checkedPerSweep);
    const lost: LostRequest[] = [];
    for (const lease of this.#known.values()) {
      if (lost.length >= max) break;
      if (lease === null || lease.endsAtMs > nowMs) continue;
      lease.endsAtMs = nowMs + leaseMs;
      lost.push(lostRequest(lease, this.#clock.now() - (nowMs - lease.admittedAtMs)));
    }
    return lost;
  }

  resetWindow(account: string, owner: LimitOwner): void {
    this.#windows.find(account, owner)?.reset();
  }

  inspect(account: string, scopes: readonly LimitScope[]): readonly WindowUse[] {
    const nowMs = this.#clock.monotonic();
    return scopes.map(({ owner }) => {
      const use = this.#windows.find(account, owner);
      return {
        owner,
        requests: use?.requests.used(nowMs) ?? 0,
        tokens: use?.tokens.used(nowMs) ?? 0,
        running: use?.running ?? 0,
      };
    });
  }

  #decide(request: AdmitRequest, usedOf: (budget: Budget) => bigint, nowMs: number): Admission {
    const { scopes, budgets, reserve } = request;
    this.#windows.dropIdle(nowMs, checkedPerAdmission);
    const uses = scopes.map(({ owner, limits }) => ({ owner, limits, use: this.#windows.of(request.account, owner) }));
    const refusal = this.#refusalOf(request, uses, usedOf, nowMs);
    if (refusal !== null) {
      return uses.length === 0
        ? { admitted: false, refusal, degraded: false }
        : { admitted: false, refusal, degraded: false, snapshot: snapshotOf(uses, nowMs) };
    }
    const windows = uses.map((use) => charge(use, reserve.tokens, nowMs));
    const admission: Admitted =
      uses.length === 0 ? admitted : { admitted: true, degraded: false, snapshot: snapshotOf(uses, nowMs) };
    return this.#hold(request, admission, windows, this.#budgets.hold(budgets, reserve), nowMs);
  }

  #hold(
    request: AdmitRequest,
    admission: Admitted,
    windows: readonly HeldWindow[],
    budgets: BudgetHold,
    nowMs: number,
  ): Admitted {
    this.#known.set(request.requestId, {
      request,
      admission,
      windows,
      budgets,
      admittedAtMs: nowMs,
      endsAtMs: nowMs + request.leaseMs,
      promptTokens: request.promptTokens,
      completionTokens: 0,
    });
    this.live += 1;
    return admission;
  }

  /** Records an ended request in the ring and drops the oldest. */
  #remember(requestId: string): void {
    const oldest = this.#ended[this.#endedAt];
    if (oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(requestId, null);
    this.#ended[this.#endedAt] = requestId;
    this.#endedAt = (this.#endedAt + 1) % endedMax;
  }

  /**
   * If several limits reject a request, the one with the longest wait is reported: a limit that the request can never pass,
   * then a budget, then a window.
   */
  #refusalOf(
    { budgets, reserve }: AdmitRequest,
    uses: readonly ScopeUse[],
    usedOf: (budget: Budget) => bigint,
    nowMs: number,
  ) {
    const refusal = refusalOf(uses, reserve.tokens, nowMs);
    if (budgets.length === 0 || refusal?.retryAfterMs === null) return refusal;
    return this.#budgets.refusalOf(budgets, reserve, usedOf, this.#clock.now()) ?? refusal;
  }

  #settleWindows({ windows, request }: Lease, actual: Charge | null): void {
    const nowMs = this.#clock.monotonic();
    const delta = actual === null ? 0 : actual.tokens - request.reserve.tokens;
    for (const { use, tokens, bucket } of windows) {
      use.running -= 1;
      if (tokens === null || delta === 0) continue;
      const window = delta < 0 ? tokens : use.tokens;
      window.correct(bucket, delta, nowMs);
    }
  }
}

function charge({ limits, use }: ScopeUse, tokens: number, nowMs: number): HeldWindow {
  use.running += 1;
  if (limits.requestsPerMinute !== null) use.requests.add(nowMs, 1);
  if (limits.tokensPerMinute === null) return { use, tokens: null, bucket: 0 };
  return { use, tokens: use.tokens, bucket: use.tokens.add(nowMs, tokens) };
}

function lostRequest({ request, promptTokens, completionTokens }: Lease, admittedAtMs: number): LostRequest {
  const { requestId, account, keyId, model, operation } = request;
  const usage = { promptTokens, completionTokens };
  return { requestId, account, keyId, model, operation, admittedAtMs: Math.round(admittedAtMs), ...usage };
}
