import type { ErrorCode } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { EndReason } from "../call/call-context.js";
import type { Progress } from "../call/live-requests.js";
import type { LimitKind, LimitOwner, LimitScope, LimitSnapshot } from "../call/rate-limits.js";
import type { EventDraft } from "../events/event.js";
import type { Metric, Threshold, UsageScope } from "../events/threshold.js";

/** A threshold that refuses. Its `limit` counts what is used in the period and what running requests have reserved. */
export type Budget = Pick<Threshold, "id" | "metric" | "period" | "limit"> & { readonly scope: UsageScope };

/** What a request is charged with: reserved at its admission, corrected at its end. Integers, 0 or more. */
export interface Charge {
  /** Prompt and answer together. */
  readonly tokens: number;
  /** Nano-dollars. */
  readonly costNano: number;
}

/** Everything one atomic admission needs. Idempotent by request id: a repeat answers as the first did. */
export interface AdmitRequest {
  readonly requestId: string;
  readonly account: string;
  /** Null for the administrator. */
  readonly keyId: string | null;
  readonly model: string;
  readonly operation: Operation;
  /**
   * To reserve: prompt (counted) plus the most that can be generated, and what that can cost. Zero where no token limit
   * or budget applies.
   */
  readonly reserve: Charge;
  /** Known before the engine runs, for the account of a request that is lost; 0: not known. */
  readonly promptTokens: number;
  /** How long the request counts as live without being renewed. */
  readonly leaseMs: number;
  /** Limits that apply, decided together: all pass or none is charged (state RL-2). */
  readonly scopes: readonly LimitScope[];
  readonly budgets: readonly Budget[];
}

export type Admission = Admitted | Refused;

export interface Admitted {
  readonly admitted: true;
  readonly snapshot?: LimitSnapshot;
  /** Decided without the shared store (state RL-16): nothing of this request was reserved there. */
  readonly degraded: boolean;
}

export interface Refused {
  readonly admitted: false;
  readonly refusal: LimitRefusal | BudgetRefusal;
  readonly snapshot?: LimitSnapshot;
  readonly degraded: boolean;
}

/** A limit of requests, tokens or concurrency that has no room. Where several have none: the one with the longest wait. */
export interface LimitRefusal {
  readonly which: Exclude<LimitKind, "budget">;
  readonly owner: LimitOwner;
  readonly limit: number;
  readonly used: number;
  readonly requested: number;
  /** After which the request is admitted if it is alone; null: never, for it is larger than the limit (state RL-8). */
  readonly retryAfterMs: number | null;
}

export interface BudgetRefusal {
  readonly which: "budget";
  readonly thresholdId: string;
  readonly metric: Metric;
  readonly limit: bigint;
  /** Reservations of running requests included. */
  readonly used: bigint;
  readonly requested: bigint;
  /** When the period ends. */
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
  /** Set when `why` is `failed`; `replica_lost` when it was swept (USE-13). */
  readonly error: ErrorCode | "replica_lost" | null;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
  /** From the arrival of the headers to now. */
  readonly latencyMs: number;
  /** Of the admission: no window holds a reservation of this request, so none is corrected (state RL-17). */
  readonly degraded: boolean;
  /** Null: this end is no event, or nobody listens. */
  readonly event: EventDraft | null;
  /** Those of the account and of the key: what this settlement may make them reach is told in the same step (USE-2). */
  readonly thresholds: readonly Threshold[];
  /**
   * Null: it ends now, by the store's time. Set for a settlement that waited in the spool: wall-clock time of the end,
   * which decides the hour, the day and the month that it counts in.
   */
  readonly endedAtMs: number | null;
}

export interface Settled {
  /** The id was settled before: nothing was added. */
  readonly duplicate: boolean;
  /** Ids of thresholds that this settlement made reach a value, once per value (USE-3), the lowest first. */
  readonly crossed: readonly string[];
}

/** A request whose lease ran out: its process has died. */
export type LostRequest = Pick<AdmitRequest, "requestId" | "account" | "keyId" | "model" | "operation"> & {
  readonly admittedAtMs: number;
  /** As last told by `renew`. */
  readonly promptTokens: number;
  readonly completionTokens: number;
};

/** A request that validation refused. */
export type RefusedRequest = Pick<AdmitRequest, "requestId" | "account" | "keyId" | "scopes">;

/**
 * Accounts for requests: who may run, what runs, what was used. Each verb is one atomic step; all are idempotent by
 * request id; time is the store's (state RL-19). Drivers: embedded, redis.
 *
 * `admit` and `settle` stand in the way of every request, so a driver that need not wait answers them at once. They
 * throw or reject with ServiceError `storage_unavailable`, `admit` also with `server_is_overloaded`.
 */
export interface Ledger {
  admit(request: AdmitRequest): Admission | Promise<Admission>;
  /** Charges one request and no tokens (state RL-14), even above the limit. */
  chargeRefused(request: RefusedRequest): Promise<void>;
  /** Extends the leases of running requests to `leaseMs` from now, and notes how far they are. */
  renew(progress: readonly Progress[], leaseMs: number): Promise<void>;
  /** Usage, thresholds, events and deliveries in one step. Resolves when it is as durable as the store promises. */
  settle(settlement: Settlement): Settled | Promise<Settled>;
  /**
   * Requests whose lease ran out, at most `max`. They are leased anew for `leaseMs`, so that two sweepers do not get the
   * same ones; whoever gets them settles them.
   */
  sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]>;
  /** Requests whose lease is held, for `/debug/state`. */
  liveLeases(): Promise<number>;
  /** Empties the windows of an owner (state RL-22); running requests go on. Models: those of the account. */
  resetWindow(account: string, owner: LimitOwner): Promise<void>;
  /** What the windows of these limits hold now, without charging (state RL-22). In the order of the scopes. */
  inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]>;
}

/** Current use of one owner's limits. */
export interface WindowUse {
  readonly owner: LimitOwner;
  readonly requests: number;
  readonly tokens: number;
  readonly running: number;
}
