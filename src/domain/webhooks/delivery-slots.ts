import { BoundedMap } from "../../lib/collections.js";
import { type Clock, pause } from "../call/ports.js";
import type { SendResult } from "./delivery.js";
import type { AccountShare, Claim, SlotShares } from "./delivery-queue.js";

/** From this duration on, an attempt marks its endpoint as slow. */
const slowMs = 1_000;
/** Maximum number of tracked endpoints in each of the two lists; beyond it the least recently used one is dropped. */
const endpointsMax = 1_000;
/** If attempts to an endpoint take less time than this, deliveries are claimed before an attempt can start. */
const quickMs = 250;
/** Maximum claims of an endpoint, as a multiple of the attempts that it may have in flight. */
const claimsPerAttempt = 6;
/** Weight of the newest value in the mean time in which the store records a result. */
const newestWeight = 0.1;

/**
 * Maximum parts of all slots: for one account while deliveries of others wait, for one account otherwise, and for all slow
 * endpoints together.
 */
const contendedPart = 1 / 4;
const alonePart = 3 / 4;
const slowPart = 1 / 2;
/** Parts of an account's slots that its slow endpoints may hold, while others wait and otherwise. */
const slowContendedPart = 1 / 4;
const slowAlonePart = 1 / 2;

export interface SlotSettings {
  /** Maximum number of claims that this process holds, 1 to 64. */
  readonly inFlightMax: number;
  /** Whether no other process claims deliveries of the same store. */
  readonly isOnlyWorker: boolean;
}

type AttemptTime = Pick<SendResult, "status" | "latencyMs">;
type ClaimFacts = Pick<Claim, "account" | "endpointId" | "maxInFlight" | "isSlow">;

interface Held {
  slots: number;
  ofSlowEndpoints: number;
}

/**
 * The slots of one process, one for each delivery from its claim until the end of its attempt, and their shares (E-12):
 *
 * - An account holds at most a quarter of the slots while deliveries of other accounts wait, and at most three quarters
 * otherwise, so that some are free for the next account.
 * - Adaptive concurrency: each attempt without an answer within a second halves the slots of its endpoint, down to 1. Each
 * answer within a second doubles them again, each later answer adds one.
 * - Slow endpoints, and endpoints that have not answered yet, together hold at most half of all slots. They cannot delay
 * endpoints that answer, however many accounts they belong to.
 * - The only worker of a store claims ahead for an endpoint that answers quickly and has all its attempts in flight. The
 * next attempt then starts as soon as one ends, without a wait until the store has recorded the result and claimed the next
 * delivery. The number of claims ahead is computed from the time of these two steps of the store.
 */
export class DeliverySlots {
  readonly #settings: SlotSettings;
  readonly #contended: AccountShare;
  readonly #alone: AccountShare;
  readonly #slowMax: number;
  readonly #heldBy = new Map<string, Held>();
  readonly #attemptsOf = new Map<string, number>();
  /** Slow endpoints, with the slots that they may hold. */
  readonly #slow = new BoundedMap<string, number>(endpointsMax);
  /** Endpoints to claim ahead for, with their maximum of claims. */
  readonly #ahead = new BoundedMap<string, number>(endpointsMax);
  #held: Held = { slots: 0, ofSlowEndpoints: 0 };
  #recordingMs = 0;

  constructor(settings: SlotSettings) {
    const { inFlightMax } = settings;
    this.#settings = settings;
    this.#contended = shareOf(inFlightMax * contendedPart, slowContendedPart);
    this.#alone = shareOf(inFlightMax * alonePart, slowAlonePart);
    this.#slowMax = atLeastOne(inFlightMax * slowPart);
  }

  /** Number of free slots. */
  get room(): number {
    return this.#settings.inFlightMax - this.#held.slots;
  }

  shares(): SlotShares {
    return {
      contended: this.#contended,
      alone: this.#alone,
      held: [...this.#heldBy].map(([account, { slots, ofSlowEndpoints }]) => [account, slots, ofSlowEndpoints]),
      slow: [...this.#slow.entries()],
      slowRoom: Math.max(0, this.#slowMax - this.#held.ofSlowEndpoints),
      ahead: [...this.#ahead.entries()],
    };
  }

  take(claim: ClaimFacts): void {
    this.#count(claim, 1);
  }

  /** Frees the slot of a claim that is not attempted. */
  release(claim: ClaimFacts): void {
    this.#count(claim, -1);
  }

  /** Notes the time that the store took to record a result. */
  recorded(durationMs: number): void {
    this.#recordingMs += (durationMs - this.#recordingMs) * newestWeight;
  }

  /** Whether another attempt to the endpoint may start. */
  mayStart({ endpointId, maxInFlight }: ClaimFacts): boolean {
    return (this.#attemptsOf.get(endpointId) ?? 0) < maxInFlight;
  }

  /** Whether deliveries may wait for the slot of this claim, because a limit is reached to which it counts. */
  isAwaited({ account, isSlow }: ClaimFacts): boolean {
    return isSlow || this.room === 0 || (this.#heldBy.get(account)?.slots ?? 0) >= this.#alone.slotsMax;
  }

  isSlow(endpointId: string): boolean {
    return this.#slow.has(endpointId);
  }

  started({ endpointId }: ClaimFacts): void {
    this.#attemptsOf.set(endpointId, (this.#attemptsOf.get(endpointId) ?? 0) + 1);
  }

  /** Frees the slot of an attempt that has an answer or failed. `result` null: nothing was sent. */
  ended(claim: ClaimFacts, result: AttemptTime | null): void {
    const { endpointId } = claim;
    const wasBusy = !this.mayStart(claim);
    const left = (this.#attemptsOf.get(endpointId) ?? 0) - 1;
    if (left > 0) this.#attemptsOf.set(endpointId, left);
    else this.#attemptsOf.delete(endpointId);
    this.release(claim);
    if (result === null) return;
    this.#adapt(claim, result);
    this.#claimAhead(claim, result, wasBusy);
  }

  #count({ account, isSlow }: ClaimFacts, by: 1 | -1): void {
    const ofAccount = this.#heldBy.get(account) ?? { slots: 0, ofSlowEndpoints: 0 };
    for (const held of [this.#held, ofAccount]) {
      held.slots += by;
      if (isSlow) held.ofSlowEndpoints += by;
    }
    if (ofAccount.slots === 0) this.#heldBy.delete(account);
    else this.#heldBy.set(account, ofAccount);
  }

  #adapt(
    { endpointId, maxInFlight }: ClaimFacts,
    { status, latencyMs }: Pick<SendResult, "status" | "latencyMs">,
  ): void {
    const slots = Math.min(this.#slow.get(endpointId) ?? maxInFlight, maxInFlight);
    if (latencyMs >= slowMs) {
      const next = status === null ? Math.max(1, Math.floor(slots / 2)) : Math.min(maxInFlight, slots + 1);
      this.#slow.set(endpointId, next);
    } else if (slots * 2 >= maxInFlight) this.#slow.delete(endpointId);
    else this.#slow.set(endpointId, slots * 2);
  }

  /**
   * Starts claiming ahead for an endpoint when it answers quickly while the maximum of its attempts is in flight. Stops when
   * an attempt is slow or has no answer.
   */
  #claimAhead({ endpointId, maxInFlight }: ClaimFacts, { status, latencyMs }: AttemptTime, wasBusy: boolean): void {
    if (!this.#settings.isOnlyWorker) return;
    if (status === null || latencyMs >= quickMs) this.#ahead.delete(endpointId);
    else if (wasBusy) {
      const perAttempt = 1 + Math.ceil((2 * this.#recordingMs) / Math.max(1, latencyMs));
      this.#ahead.set(endpointId, maxInFlight * Math.min(claimsPerAttempt, perAttempt));
    }
  }
}

function shareOf(slots: number, slowPart: number): AccountShare {
  return { slotsMax: atLeastOne(slots), slowMax: atLeastOne(slots * slowPart) };
}

function atLeastOne(slots: number): number {
  return Math.max(1, Math.floor(slots));
}

/** Maximum deliveries of one claim: fewer while requests run, because the pauses between attempts delay the next claim. */
const claimedMax = { serving: 32, alone: 64 } as const;
/**
 * Attempts that are started together while no request runs. While requests run, half as many as there are requests, within
 * these bounds.
 */
const batchMax = 16;
const servingBatchMin = 4;
/** Maximum pause after a batch. */
const pauseMaxMs = 20;
/**
 * Maximum duration of a turn of the event loop that counts as idle; it includes the millisecond of the timer that measures
 * it.
 */
const idleTurnMs = 2;
/** A first attempt that starts later than this after its event is late. */
const lateMs = 100;
/** If a first attempt is later than this, all claimed deliveries start together. */
const veryLateMs = 1_000;

interface PaceDeps {
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
  /** Number of requests in this process; while any runs, it has priority. */
  readonly live: { readonly size: number };
}

interface Batch {
  /** Number of claims whose attempts start together. */
  readonly size: number;
  /** Maximum pause afterwards; null: no pause. */
  readonly pauseMaxMs: number | null;
}

/**
 * How fast deliveries start. While requests run, deliveries start in small batches and pause after each until the event loop
 * is idle, at most 20 ms, so that requests have priority for the time of the process (WH-52). If first attempts are late, the
 * pause is only one turn of the event loop, and if they are very late, there is none: deliveries then keep up with the
 * requests that cause them (E-30).
 */
export class DeliveryPace {
  readonly #deps: PaceDeps;

  constructor(deps: PaceDeps) {
    this.#deps = deps;
  }

  /** Maximum deliveries of the next claim. */
  get claimedMax(): number {
    return this.#deps.live.size > 0 ? claimedMax.serving : claimedMax.alone;
  }

  /** The next batch of these claims. */
  nextBatch(claims: readonly Pick<Claim, "attemptNumber" | "dueAtMs">[]): Batch {
    const delayMs = this.#delayMs(claims);
    if (delayMs > veryLateMs) return { size: claims.length, pauseMaxMs: null };
    const size = this.#batchSize();
    if (delayMs <= lateMs) return { size, pauseMaxMs };
    // After the last batch the next claim follows, during which the event loop takes its turn anyway.
    return { size, pauseMaxMs: size < claims.length ? 0 : null };
  }

  /** Pauses if requests run. */
  async giveWay(): Promise<void> {
    if (this.#deps.live.size > 0) await this.pause(pauseMaxMs);
  }

  /** Returns after an idle turn of the event loop or when no request runs, at the latest one turn after `maxMs`. */
  async pause(maxMs: number): Promise<void> {
    const { clock, live } = this.#deps;
    const untilMs = clock.monotonic() + maxMs;
    for (;;) {
      const beganAtMs = clock.monotonic();
      // The delay of a timer shows for how long the event loop was busy.
      await pause(clock, 0);
      const nowMs = clock.monotonic();
      if (live.size === 0 || nowMs - beganAtMs <= idleTurnMs || nowMs >= untilMs) return;
    }
  }

  #batchSize(): number {
    const { size } = this.#deps.live;
    return size === 0 ? batchMax : Math.min(batchMax, Math.max(servingBatchMin, Math.floor(size / 2)));
  }

  /** The longest delay of a first attempt; 0 if there is none among the claims. */
  #delayMs(claims: readonly Pick<Claim, "attemptNumber" | "dueAtMs">[]): number {
    const nowMs = this.#deps.now();
    return Math.max(0, ...claims.map(({ attemptNumber, dueAtMs }) => (attemptNumber === 1 ? nowMs - dueAtMs : 0)));
  }
}
