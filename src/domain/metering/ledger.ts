import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { EndReason } from "../call/call-context.js";
import type { Progress } from "../call/live-requests.js";
import type { LimitKind, LimitOwner, LimitScope, LimitSnapshot } from "../call/rate-limits.js";
import type { EventDraft, Metric, Threshold, UsageScope } from "../events/events.js";

/** A threshold that rejects requests. Settled usage and reservations count against its `limit`. */
export type Budget = Pick<Threshold, "id" | "metric" | "period" | "limit"> & { readonly scope: UsageScope };

/** Charge of a request: reserved at admission, corrected at settlement. Integers, 0 or more. */
export interface Charge {
  /** Prompt and answer together. */
  readonly tokens: number;
  /** Nano-dollars. */
  readonly costNano: number;
}

/** Input of one atomic admission. Idempotent by request id: a repeat gets the first result. */
export interface AdmitRequest {
  readonly requestId: string;
  readonly account: string;
  /** Null for the administrator. */
  readonly keyId: string | null;
  readonly model: string;
  readonly operation: Operation;
  /** Reservation: counted prompt, maximum answer and their cost. Zero if no token limit or budget applies. */
  readonly reserve: Charge;
  /** Prompt tokens counted before the engine runs; they are charged if the request is lost. 0 if unknown. */
  readonly promptTokens: number;
  /** Length of the lease: the request counts as lost if the lease is not renewed within this time. */
  readonly leaseMs: number;
  /** Limits that apply; decided together, all or none is charged (state RL-2). */
  readonly scopes: readonly LimitScope[];
  readonly budgets: readonly Budget[];
}

export type Admission = Admitted | Refused;

export interface Admitted {
  readonly admitted: true;
  readonly snapshot?: LimitSnapshot;
  /** Decided without the shared store, where nothing was reserved (state RL-16). */
  readonly degraded: boolean;
}

export interface Refused {
  readonly admitted: false;
  readonly refusal: LimitRefusal | BudgetRefusal;
  readonly snapshot?: LimitSnapshot;
  readonly degraded: boolean;
}

/** An exceeded limit of requests, tokens or concurrency; of several, the one with the longest wait. */
export interface LimitRefusal {
  readonly which: Exclude<LimitKind, "budget">;
  readonly owner: LimitOwner;
  readonly limit: number;
  readonly used: number;
  readonly requested: number;
  /** Wait after which the request is admitted without competition; null if it exceeds the limit itself (state RL-8). */
  readonly retryAfterMs: number | null;
}

export interface BudgetRefusal {
  readonly which: "budget";
  readonly thresholdId: string;
  readonly metric: Metric;
  readonly limit: bigint;
  /** Usage of the period so far, including reservations. */
  readonly used: bigint;
  readonly requested: bigint;
  /** End of the period, when the usage is 0 again. */
  readonly resetsAtMs: number;
}

/** The end of one request, written once per request id. */
export interface Settlement {
  readonly requestId: string;
  readonly account: string;
  readonly keyId: string | null;
  readonly model: string;
  readonly operation: Operation;
  readonly why: EndReason;
  /** Set when `why` is `failed`; `replica_lost` for a lost request (USE-13). */
  readonly error: ErrorCode | "replica_lost" | null;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
  /** Time since the headers arrived. */
  readonly latencyMs: number;
  /** The admission was decided without the shared store: there is no reservation to correct (state RL-17). */
  readonly degraded: boolean;
  /** Null when the end is no event or has no receiver. */
  readonly event: EventDraft | null;
  /** Thresholds of the account and of the key; crossings are written in the same step (USE-2). */
  readonly thresholds: readonly Threshold[];
  /**
   * Null: now, in store time. Otherwise the wall-clock time of an end that waited in the spool; it decides the hour,
   * day and month of the usage.
   */
  readonly endedAtMs: number | null;
}

export interface Settled {
  /** The request was already settled; nothing was added. */
  readonly duplicate: boolean;
  /** Ids of thresholds that crossed a value, once per value (USE-3), lowest value first. */
  readonly crossed: readonly string[];
}

/** A request whose lease expired because its process died. */
export type LostRequest = Pick<AdmitRequest, "requestId" | "account" | "keyId" | "model" | "operation"> & {
  readonly admittedAtMs: number;
  /** The tokens as reported by the last `renew`. */
  readonly promptTokens: number;
  readonly completionTokens: number;
};

/** A request that failed validation. */
export type RefusedRequest = Pick<AdmitRequest, "requestId" | "account" | "keyId" | "scopes">;

/**
 * Port of the accounting of requests: admission, leases of running requests, usage. Each verb is one atomic step and
 * idempotent by request id; time is the store's (state RL-19). Drivers: embedded, redis.
 *
 * `admit` and `settle` are on the path of every request, so a driver that need not wait returns synchronously. They throw
 * or reject with ServiceError `storage_unavailable`, `admit` also with `server_is_overloaded`.
 */
export interface Ledger {
  admit(request: AdmitRequest): Admission | Promise<Admission>;
  /** Charges one request and no tokens, even above the limit (state RL-14). */
  chargeRefused(request: RefusedRequest): Promise<void>;
  /**
   * Called before the first byte of a streamed answer: from then on, admitted requests are settled even if this process is
   * killed.
   */
  answerBegins(): void;
  /** Extends the leases of running requests to `leaseMs` from now and stores their progress. */
  renew(progress: readonly Progress[], leaseMs: number): Promise<void>;
  /**
   * Writes usage, thresholds and the event in one step. Resolves when they are as durable as the store promises.
   * `inBackground`: no request waits for it, so a shared store may take longer.
   */
  settle(settlement: Settlement, inBackground?: boolean): Settled | Promise<Settled>;
  /**
   * Returns at most `max` requests with an expired lease. Each gets a new lease for `leaseMs`, so that only one sweeper
   * settles it.
   */
  sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]>;
  /** Number of held leases, for `/debug/state`. */
  liveLeases(): Promise<number>;
  /**
   * Resets the rate limit windows of a key, account or model; running requests continue (state RL-22). For a model, only the
   * windows of this account are reset.
   */
  resetWindow(account: string, owner: LimitOwner): Promise<void>;
  /** Current use of the windows of these limits, without charging, in the same order (state RL-22). */
  inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]>;
}

/** Current use of the limits of one owner (a key, an account or a model). */
export interface WindowUse {
  readonly owner: LimitOwner;
  readonly requests: number;
  readonly tokens: number;
  readonly running: number;
}

/** A settlement that waits for the store. */
export interface SpooledSettlement {
  readonly settlement: Settlement;
  /** The cursor after it: the argument of `release` once it is settled. */
  readonly end: SpoolSlot;
}

/** Opaque cursor in the spool. */
export type SpoolSlot = string;

/** How full the spool is. */
export interface SpoolLevel {
  /** Settlements that wait. */
  readonly size: number;
  /** Number of waiting settlements at which no request is admitted. */
  readonly sizeMax: number;
  /** Settlements that are only in memory: a crash loses them. */
  readonly memoryOnly: number;
  /** Why the disk cannot be written; null while it can. */
  readonly fault: string | null;
  /** Wall-clock end of the oldest settlement's request; null for an empty spool. */
  readonly oldestAtMs: number | null;
}

/** Settlements that wait while the store is unavailable (USE-11). */
export interface SettlementSpool extends SpoolLevel {
  /**
   * Resolves when the settlement is on the disk, or in memory while the disk cannot be written. Rejects with ServiceError
   * `storage_unavailable` only far beyond `sizeMax`, so that the settlements of requests that were already admitted still
   * fit.
   */
  append(settlement: Settlement): Promise<void>;
  /** The oldest settlements, at most `max`. */
  oldest(max: number): Promise<readonly SpooledSettlement[]>;
  /** Removes all settlements up to the cursor. */
  release(upTo: SpoolSlot): Promise<void>;
  /** Tries to write the settlements that are only in memory to the disk. Never rejects. */
  persist(): Promise<void>;
  /**
   * Writes the settlements that are only in memory to the disk, or to the spill folder if the disk cannot be written.
   * Resolves with the number of lost settlements.
   */
  close(): Promise<number>;
}
