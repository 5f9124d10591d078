import type { EventType } from "../events/event.js";
import type { Attempt, AttemptResult, Delivery, DeliveryFailure, DeliveryState } from "./delivery.js";
import type { EndpointHealth } from "./endpoint-store.js";

/** A delivery that one worker holds for the length of its lease. */
export interface Claim {
  readonly deliveryId: string;
  readonly account: string;
  readonly endpointId: string;
  readonly eventId: string;
  readonly eventType: EventType;
  /** JSON: the bytes of every attempt (WH-12). */
  readonly body: string;
  /** Another one with every claim of the delivery: a former holder's end of an attempt counts for nothing (WH-33). */
  readonly fence: number;
  /** Of the attempt to be made, 1 for the first. */
  readonly attemptNumber: number;
  /** Retries of the schedule that were used before this attempt, 0 to 5. */
  readonly retriesUsed: number;
  readonly trigger: Attempt["trigger"];
  readonly by: string;
  /** No retry follows when this attempt fails (WH-46). */
  readonly isSingle: boolean;
  /** When it was due. */
  readonly dueAtMs: number;
}

export interface ClaimOptions {
  /** 1 to 64. */
  readonly max: number;
  /** After which others may claim it (WH-34). */
  readonly leaseMs: number;
}

export interface Claimed {
  readonly claims: readonly Claim[];
  /** Until something is due or a lease runs out, as far as is known now; 0: there is more. Null: nothing waits. */
  readonly nextInMs: number | null;
}

/** What follows from an attempt. */
export type AttemptOutcome =
  | { readonly state: "delivered" }
  /** Due so long after the store takes note of the failure; one more retry is used. */
  | { readonly state: "awaiting_retry"; readonly delayMs: number }
  | { readonly state: "permanently_failed"; readonly reason: DeliveryFailure };

export interface FinishRequest {
  readonly claim: Claim;
  readonly result: AttemptResult;
  readonly outcome: AttemptOutcome;
}

export interface RetryRequest {
  readonly account: string;
  readonly deliveryId: string;
  /** As in Attempt. */
  readonly by: string;
  /** One that has ended: gives it a whole new schedule of retries; else its next failure is final. */
  readonly restart: boolean;
  /** Whether one that was delivered is sent again (WH-47). */
  readonly again: boolean;
}

/** `purged`: the payload is gone. `endpoint_*`: the endpoint is so. */
export type RetryOutcome =
  | "queued"
  | "in_flight"
  | "delivered"
  | "purged"
  | "endpoint_disabled"
  | "endpoint_deleted"
  | "unknown";

/** One step of a replay (WH-48) over deliveries of one endpoint, the oldest first. */
export interface ReplayRequest {
  readonly account: string;
  readonly endpointId: string;
  /** Created at this time or later, and before `toMs`. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Those that failed for good, or also those that were delivered. */
  readonly which: "failed" | "all";
  /** What it has queued once, it does not queue again. */
  readonly replayId: string;
  readonly by: string;
  readonly restart: boolean;
  /** Position that the step before has given; null for the first. */
  readonly after: string | null;
  /** Deliveries to look at, 1 to 500. */
  readonly max: number;
  /** Of those queued, the first is due after `firstInMs`, each next `spacingMs` later (paced). */
  readonly firstInMs: number;
  readonly spacingMs: number;
}

export interface ReplayStep {
  /** By this step. */
  readonly queued: number;
  /** Those of this replay that an earlier step or call had queued, by where they stand now. */
  readonly waiting: number;
  readonly delivered: number;
  readonly failed: number;
  /** Null: it was the last. */
  readonly next: string | null;
}

/** Null, each: any. */
export interface DeliveryFilter {
  readonly account: string | null;
  readonly state: DeliveryState | null;
  readonly endpointId: string | null;
  readonly eventType: EventType | null;
  /** Created at this time or later. */
  readonly fromMs: number | null;
  /** Created before this time. */
  readonly toMs: number | null;
  readonly replayId: string | null;
}

/** How much waits for one endpoint, for metrics (WH-51). */
export interface EndpointBacklog {
  readonly account: string;
  readonly endpointId: string;
  /** Deliveries that are not at an end, claimed ones included. */
  readonly open: number;
  /** When the one that has waited longest was due; null: none is due. */
  readonly oldestDueAtMs: number | null;
}

/**
 * Deliveries, from the settlement that wrote them to their end: the queue is the log. Each verb is one atomic step; all
 * times are the store's. Rejects with `storage_unavailable`.
 *
 * Fairness (WH-37): at most `maxInFlight` of an endpoint are claimed at a time, over all workers, and a `claim` takes
 * from the endpoints whose turn has waited longest. First attempts of an endpoint are claimed in the order of their
 * making. A delivery whose lease ran out is due at once; that attempt is not counted. What is due at an endpoint that is
 * disabled or deleted is not claimed: `claim` ends it as `endpoint_disabled` or `endpoint_deleted` on its way, due or not.
 */
export interface DeliveryQueue {
  /** Takes what is due. The power may go without a trace of a claim: then the delivery repeats. */
  claim(options: ClaimOptions): Promise<Claimed>;
  /**
   * The attempt, the new state and the endpoint's health in one step. Null: the lease was lost to somebody else, and
   * nothing was done. Idempotent: a repeat of one that was done answers null.
   */
  finish(request: FinishRequest): Promise<EndpointHealth | null>;
  /** Gives back claims that were not tried: due as they were, no attempt counted. Fenced ones are left alone. */
  handBack(claims: readonly Claim[]): Promise<void>;
  /** Makes it due now: one that waits for a retry uses that retry (WH-47). */
  retryNow(request: RetryRequest): Promise<RetryOutcome>;
  replay(request: ReplayRequest): Promise<ReplayStep>;
  find(id: string): Promise<Delivery | null>;
  /** The body of the event as it is sent; null: there is no such delivery, or its payload is purged. */
  payload(id: string): Promise<string | null>;
  /**
   * The newest first. `after` is `next` of the page before; it is a text without spaces. A page looks at a bounded number of
   * deliveries: where few of very many fit the filter, it has fewer than the limit, even none, and yet a next one.
   */
  list(
    filter: DeliveryFilter,
    page: { readonly limit: number; readonly after: string | null },
  ): Promise<{ readonly deliveries: readonly Delivery[]; readonly next: string | null }>;
  /** Of at most 1,000 endpoints: those with something open, the longest wait first. */
  backlog(): Promise<readonly EndpointBacklog[]>;
  /** Deliveries that are due and not claimed, over all accounts. */
  due(): Promise<number>;
  /**
   * Calls the listener when this process has made something due: a settlement, a retry, a replay, an endpoint that was
   * disabled or removed. Other processes' are found by asking. The returned function ends it. A listener never throws.
   */
  onDue(listener: () => void): () => void;
}

/** Open deliveries that an account may have (WH-52). What is made beyond it fails at once as `overflow`. */
export const openDeliveriesMax = 1_000_000;

/** How long payloads and attempts are kept after the end (WH-50); the rest of the record stays as long again. */
export const deliveredKeptMs = 24 * 3_600_000;
export const failedKeptMs = 30 * deliveredKeptMs;
/** Delivered ones that keep their payload; more lose it earlier, the oldest first. Of each shard where there are shards. */
export const deliveredKeptMax = 100_000;
