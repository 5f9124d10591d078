import type { ErrorCode } from "../contract/errors.js";
import type { Operation } from "../contract/operations.js";
import type { EndReason } from "./call-context.js";

/** Limits of the caller after this request was charged, for `x-ratelimit-*` (wire RL-1). Absent dimension: unlimited. */
export interface LimitSnapshot {
  readonly requests?: LimitState;
  readonly tokens?: LimitState;
}

export interface LimitState {
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Until the window is full again (wire RL-3). */
  readonly resetMs: number;
}

/** Everything one atomic admission needs. Idempotent by request id: a repeat answers as the first did. */
export interface AdmitRequest {
  readonly requestId: string;
  readonly account: string;
  /** Null for the administrator. */
  readonly keyId: string | null;
  readonly model: string;
  /** Tokens to reserve: prompt (counted) plus the most that can be generated. 0 when no token limit applies. */
  readonly tokens: number;
  /** How long the request counts as live without being renewed. */
  readonly leaseMs: number;
}

export type Admission =
  | { readonly admitted: true; readonly snapshot?: LimitSnapshot; readonly degraded: boolean }
  | {
      readonly admitted: false;
      /** The limit that refused. */
      readonly which: "requests" | "tokens" | "concurrency" | "budget";
      /** Null: never, as it is. */
      readonly retryAfterMs: number | null;
      /** Names the limit, its value, used and requested (ERR-27). */
      readonly message: string;
      readonly snapshot?: LimitSnapshot;
    };

/** The end of one admitted request, written once per request id. */
export interface Settlement {
  readonly requestId: string;
  readonly account: string;
  readonly keyId: string | null;
  readonly model: string;
  readonly operation: Operation;
  readonly why: EndReason;
  /** Set when `why` is `failed`. */
  readonly error: ErrorCode | null;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  /** From the arrival of the headers to now. */
  readonly latencyMs: number;
}

export type ThresholdId = string;

export interface Settled {
  /** The id was settled before. */
  readonly duplicate: boolean;
  readonly crossed: readonly ThresholdId[];
}

export interface LostRequest {
  readonly requestId: string;
  readonly account: string;
}

/**
 * Accounts for requests: who may run, what runs, what was used. Each verb is one atomic step; all are idempotent by
 * request id. Drivers: embedded, redis, volatile.
 *
 * `admit` and `settle` stand in the way of every request, so a driver that need not wait answers them at once.
 */
export interface Ledger {
  admit(request: AdmitRequest): Admission | Promise<Admission>;
  /** Charges one request and no tokens for a request that validation refused (state RL-14). */
  chargeRefused(request: {
    readonly requestId: string;
    readonly account: string;
    readonly keyId: string | null;
  }): Promise<void>;
  /** Extends the leases of running requests. */
  renew(requestIds: readonly string[]): Promise<void>;
  /** Usage, thresholds, events and deliveries in one step. */
  settle(settlement: Settlement): Settled | Promise<Settled>;
  /** Settles requests whose lease ran out, at most `max`. */
  sweepLost(max: number): Promise<readonly LostRequest[]>;
  /** Requests whose lease is held, for `/debug/state`. */
  liveLeases(): Promise<number>;
}
