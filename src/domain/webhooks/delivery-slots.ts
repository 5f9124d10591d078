import { BoundedMap } from "../../lib/collections.js";
import type { SendResult } from "./delivery.js";
import type { AccountShare, Claim, SlotShares } from "./delivery-queue.js";

/** From this duration on, an attempt makes its endpoint a slow one. */
const slowMs = 1_000;
/** Tracked endpoints of each kind; the one that was used least recently leaves when there are more. */
const endpointsMax = 1_000;
/** Below this duration, claims are made ahead of the attempts. */
const quickMs = 250;
/** Maximum claims of an endpoint, over the attempts that it may have in flight. */
const claimsPerAttempt = 6;
/** Weight of the newest value in the mean time in which the store records a result. */
const newestWeight = 0.1;

/** Parts of the slots: of one account while others wait and otherwise, and of all slow endpoints together. */
const contendedPart = 1 / 4;
const alonePart = 3 / 4;
const slowPart = 1 / 2;
/** Parts of an account's slots that its slow endpoints may hold, while others wait and otherwise. */
const slowContendedPart = 1 / 4;
const slowAlonePart = 1 / 2;

export interface SlotSettings {
  /** Maximum claims that this process holds, 1 to 64. */
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
 * The slots of one process, one for each delivery that it has claimed, and their shares (E-12):
 *
 * - An account holds at most a quarter of them while deliveries of others wait, and at most three quarters otherwise, so that
 *   the next account finds some free.
 * - Adaptive concurrency: each attempt without an answer within a second halves the slots of its endpoint, down to 1, and each
 *   answer within a second doubles them again.
 * - Slow endpoints, and those that have not answered yet, hold at most half of all slots together: they cannot delay those that
 *   answer, however many accounts they belong to.
 * - The only worker of a store claims ahead for an endpoint that answers quickly and has all its attempts in flight. The next
 *   attempt then starts with the end of one, and not when the store has recorded it and claimed the next. The claims ahead
 *   cover the time of these two steps of the store.
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

  /** Slots that are free. */
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

  release(claim: ClaimFacts): void {
    this.#count(claim, -1);
  }

  /** The store has recorded a result in this time. */
  recorded(durationMs: number): void {
    this.#recordingMs += (durationMs - this.#recordingMs) * newestWeight;
  }

  /** Whether another attempt to the endpoint may start. */
  mayStart({ endpointId, maxInFlight }: ClaimFacts): boolean {
    return (this.#attemptsOf.get(endpointId) ?? 0) < maxInFlight;
  }

  isSlow(endpointId: string): boolean {
    return this.#slow.has(endpointId);
  }

  started({ endpointId }: ClaimFacts): void {
    this.#attemptsOf.set(endpointId, (this.#attemptsOf.get(endpointId) ?? 0) + 1);
  }

  /** The attempt has an answer or failed; null: nothing was sent. Its slot is held until the result is recorded. */
  ended(claim: ClaimFacts, result: AttemptTime | null): void {
    const { endpointId } = claim;
    const wasBusy = !this.mayStart(claim);
    const left = (this.#attemptsOf.get(endpointId) ?? 0) - 1;
    if (left > 0) this.#attemptsOf.set(endpointId, left);
    else this.#attemptsOf.delete(endpointId);
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
    if (latencyMs >= slowMs) this.#slow.set(endpointId, status === null ? Math.max(1, Math.floor(slots / 2)) : slots);
    else if (slots * 2 >= maxInFlight) this.#slow.delete(endpointId);
    else this.#slow.set(endpointId, slots * 2);
  }

  /** Begins with an answer while all attempts are in flight, and ends with one that is not quick. */
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
