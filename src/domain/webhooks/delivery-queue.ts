import type { EventType } from "../events/events.js";
import type { Attempt, AttemptResult, Delivery, DeliveryFailure, DeliveryState } from "./delivery.js";
import type { EndpointHealth } from "./endpoint-store.js";

/** A delivery that one worker holds under a lease. */
export interface Claim {
  readonly deliveryId: string;
  readonly account: string;
  readonly endpointId: string;
  readonly eventId: string;
  readonly eventType: EventType;
  /** JSON. Every attempt sends the same bytes (WH-12). */
  readonly body: string;
  /** Fencing token, new with every claim: results of a former holder are rejected (WH-33). */
  readonly fence: number;
  /** Number of the next attempt, from 1. */
  readonly attemptNumber: number;
  /** Scheduled retries used so far, 0 to 5. */
  readonly retriesUsed: number;
  readonly trigger: Attempt["trigger"];
  readonly by: string;
  /** Whether a failure of this attempt is final (WH-46). */
  readonly isSingle: boolean;
  /** When it was due. */
  readonly dueAtMs: number;
  /** Maximum attempts of the endpoint in flight, over all workers. */
  readonly maxInFlight: number;
  /** Whether the endpoint was slow, in the sense of SlotShares, when the delivery was claimed. */
  readonly isSlow: boolean;
}

export interface ClaimOptions {
  /** 1 to 64. */
  readonly max: number;
  /** Length of the lease, after which other workers may claim the delivery (WH-34). */
  readonly leaseMs: number;
  /** Shares in the worker's slots; absent: only `max` bounds the claims. */
  readonly shares?: SlotShares;
}

/**
 * How the slots of one worker are shared between accounts (E-12). An endpoint is slow if the worker lists it in `slow`, or
 * if it had no success since its last failure or its creation: its attempts may take the whole timeout.
 */
export interface SlotShares {
  /** Shares of one account while due deliveries of others wait. */
  readonly contended: AccountShare;
  /** Shares of one account otherwise; at least as large. */
  readonly alone: AccountShare;
  /** Slots that accounts hold now; an absent account holds none. */
  readonly held: readonly (readonly [account: string, slots: number, ofSlowEndpoints: number])[];
  /** Endpoints that answer slowly or not at all, each with the slots that it may hold over all workers. */
  readonly slow: readonly (readonly [endpointId: string, slotsMax: number])[];
  /** Slots that slow endpoints of all accounts may take together now. */
  readonly slowRoom: number;
  /**
   * Endpoints for which more deliveries are claimed than may be in flight, each with its maximum of claims. Used by the only
   * worker of a store, which still starts at most `Claim.maxInFlight` attempts at the same time.
   */
  readonly ahead: readonly (readonly [endpointId: string, claimsMax: number])[];
}

export interface Claimed {
  readonly claims: readonly Claim[];
  /**
   * Time until a delivery is due or a lease expires, as far as known; 0 if more deliveries can be claimed now, null if none
   * wait. Due deliveries of an account whose share of slots is used up do not count.
   */
  readonly nextInMs: number | null;
}

/** Maximum slots of one account. */
export interface AccountShare {
  readonly slotsMax: number;
  /** Maximum slots of its slow endpoints, which are part of `slotsMax`. */
  readonly slowMax: number;
}

/** Events whose deliveries are not created yet. */
export interface WaitingEvents {
  readonly events: number;
  /** Time of the oldest; null if there is none. */
  readonly oldestAtMs: number | null;
}

/** State of the delivery after an attempt. */
export type AttemptOutcome =
  | { readonly state: "delivered" }
  /** Due this long after the failure is recorded; uses one more retry. */
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
  /** Requester, in the format of `Attempt.by`. */
  readonly by: string;
  /** Restarts the schedule of retries of a failed delivery. If false, a failure of the new attempt is final. */
  readonly restart: boolean;
  /** Whether a delivered delivery is sent again (WH-47). */
  readonly again: boolean;
}

/** `purged`: the payload was deleted. `endpoint_*`: state of the endpoint. */
export type RetryOutcome =
  | "queued"
  | "in_flight"
  | "delivered"
  | "purged"
  | "endpoint_disabled"
  | "endpoint_deleted"
  | "unknown";

/** One step of a replay over an endpoint's deliveries, oldest first (WH-48). */
export interface ReplayRequest {
  readonly account: string;
  readonly endpointId: string;
  /** Created at this time or later, and before `toMs`. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Only permanently failed deliveries, or delivered ones too. */
  readonly which: "failed" | "all";
  /** Deliveries are queued once per replay id. */
  readonly replayId: string;
  readonly by: string;
  readonly restart: boolean;
  /** Cursor from the previous step; null for the first. */
  readonly after: string | null;
  /** Deliveries to examine, 1 to 500. */
  readonly max: number;
  /** The first one is due after `firstInMs`, each next one `spacingMs` later. */
  readonly firstInMs: number;
  readonly spacingMs: number;
}

export interface ReplayStep {
  /** Queued by this step. */
  readonly queued: number;
  /** Deliveries queued earlier by this replay, by current state. */
  readonly waiting: number;
  readonly delivered: number;
  readonly failed: number;
  /** Cursor for the next step; null after the last one. */
  readonly next: string | null;
}

/** Null fields match all. */
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

/** Backlog of one endpoint, for metrics (WH-51). */
export interface EndpointBacklog {
  readonly account: string;
  readonly endpointId: string;
  /** Unfinished deliveries, including claimed ones. */
  readonly open: number;
  /** Due time of the oldest one; null if none is due. */
  readonly oldestDueAtMs: number | null;
}

/**
 * The deliveries, from the event until they have ended: the queue is also the delivery log. Each verb is one atomic step;
 * all times are the store's. Rejects with `storage_unavailable`.
 *
 * A settlement writes one record for an event, with the endpoints that get it (WH-14). `claim` and `fanOut` create the
 * deliveries from these records, a bounded number in each step, from each account in turn, and once for each event (WH-11).
 * The deliveries of an event share its body.
 *
 * Fairness (WH-37): at most `maxInFlight` deliveries of an endpoint are claimed at a time, over all workers, and a `claim`
 * serves the endpoints with the longest wait first. First attempts of an endpoint are claimed in the order of creation. A
 * delivery whose lease expired is due immediately; the attempt under that lease is not counted. Deliveries of a disabled or
 * deleted endpoint are not claimed: `claim` ends them as `endpoint_disabled` or `endpoint_deleted`, whether they are due or
 * not.
 */
export interface DeliveryQueue {
  /** Creates about `max` deliveries of waiting events. Returns whether more events wait. */
  fanOut(max: number): Promise<boolean>;
  waitingEvents(): Promise<WaitingEvents>;
  /** Claims due deliveries. A power failure may lose claims; their deliveries are then sent again. */
  claim(options: ClaimOptions): Promise<Claimed>;
  /**
   * Records the attempt, the new state and the endpoint's health in one step. Null when the lease was lost or the attempt
   * was already recorded: nothing was changed.
   */
  finish(request: FinishRequest): Promise<EndpointHealth | null>;
  /** Releases claims without an attempt. Claims with an outdated fencing token are ignored. */
  handBack(claims: readonly Claim[]): Promise<void>;
  /** Makes a delivery due now; a pending retry is used up (WH-47). */
  retryNow(request: RetryRequest): Promise<RetryOutcome>;
  replay(request: ReplayRequest): Promise<ReplayStep>;
  find(id: string): Promise<Delivery | null>;
  /** Body of the event; null for an unknown delivery or a purged payload. */
  payload(id: string): Promise<string | null>;
  /**
   * Newest first. `after` is the `next` of the previous page, a text without spaces. A page examines a bounded number of
   * deliveries, so a page of a selective filter may have few or no deliveries although `next` is set.
   */
  list(
    filter: DeliveryFilter,
    page: { readonly limit: number; readonly after: string | null },
  ): Promise<{ readonly deliveries: readonly Delivery[]; readonly next: string | null }>;
  /** Endpoints with unfinished deliveries, at most 1,000, longest wait first. */
  backlog(): Promise<readonly EndpointBacklog[]>;
  /** Due deliveries of all accounts that are not claimed, and waiting events. */
  due(): Promise<number>;
  /**
   * Calls the listener when this process has made deliveries due: by the event of a settlement, retry, replay, or by
   * disabling or removing an endpoint. Deliveries that other processes make due are found by polling. Returns the function
   * that unsubscribes. A listener never throws.
   */
  onDue(listener: () => void): () => void;
}

/** Maximum unfinished deliveries of an account; further ones fail immediately as `overflow` (WH-52). */
export const openDeliveriesMax = 1_000_000;

/**
 * Maximum events of an account that wait for their deliveries (E-30). Beyond it, each settlement also creates the deliveries
 * of the oldest waiting event, which slows the account's requests down to the speed of the store.
 */
export const waitingEventsMax = 100_000;
/** Maximum number of deliveries that one claim creates in each shard of the store, which takes it some milliseconds. */
export const fanOutMax = 128;

/** Retention of payloads and attempts after the end (WH-50); the record stays twice as long. */
export const deliveredKeptMs = 24 * 3_600_000;
export const failedKeptMs = 30 * deliveredKeptMs;
/** Maximum number of delivered deliveries with a payload, per shard; the payloads of the oldest are removed first. */
export const deliveredKeptMax = 100_000;
