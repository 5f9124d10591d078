import type { AttemptOutcome, Claim, RetryOutcome } from "../../src/domain/webhooks/delivery-queue.js";
import { groupBy } from "../../src/lib/collections.js";
import { leaseMs } from "./delivery-records.js";

/** Expected state of a delivery. Times count only time that the test has advanced. */
export interface ModelDelivery {
  readonly id: string;
  readonly endpointId: string;
  state: "pending" | "awaiting_retry" | "delivered" | "permanently_failed";
  dueAtMs: number;
  /** The claim whose result would be accepted; null: none. */
  current: Claim | null;
  /** End of the lease; null: the delivery is not claimed. */
  leasedUntilMs: number | null;
  retriesUsed: number;
  attemptsMade: number;
  isSingle: boolean;
  trigger: Claim["trigger"];
}

/** The rules of the queue in their simplest form, without regard to speed or storage. */
export class DeliveryModel {
  /** Deliveries in order of creation. */
  readonly deliveries: ModelDelivery[] = [];
  readonly #maxInFlight: number;
  #nowMs = 0;

  constructor(maxInFlight: number) {
    this.#maxInFlight = maxInFlight;
  }

  add(id: string, endpointId: string): void {
    this.deliveries.push({
      id,
      endpointId,
      state: "pending",
      dueAtMs: this.#nowMs,
      current: null,
      leasedUntilMs: null,
      retriesUsed: 0,
      attemptsMade: 0,
      isSingle: false,
      trigger: "schedule",
    });
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }

  /** Expected size of a claim: due deliveries within the capacity of their endpoints. */
  claimable(): number {
    this.#endLeases();
    const lines = groupBy(this.deliveries, ({ endpointId }) => endpointId).values();
    return [...lines].reduce((sum, line) => {
      const held = line.filter(({ leasedUntilMs }) => leasedUntilMs !== null).length;
      const due = line.filter((each) => this.#isDue(each)).length;
      return sum + Math.max(0, Math.min(due, this.#maxInFlight - held));
    }, 0);
  }

  /** Records a claim. Returns an error for an invalid claim, or null. */
  claimed(claims: readonly Claim[]): string | null {
    for (const claim of claims) {
      const delivery = this.deliveries.find(({ id }) => id === claim.deliveryId);
      if (delivery === undefined || !this.#isDue(delivery)) return `${claim.deliveryId} was not due`;
      const isOutOfTurn = this.deliveries
        .slice(0, this.deliveries.indexOf(delivery))
        .some((other) => other.endpointId === delivery.endpointId && other.state === "pending" && this.#isDue(other));
      if (delivery.state === "pending" && isOutOfTurn) return `${claim.deliveryId} was out of turn`;
      if (!agrees(delivery, claim)) return `${claim.deliveryId} is not as it was left`;
      delivery.current = claim;
      delivery.leasedUntilMs = this.#nowMs + leaseMs;
    }
    return null;
  }

  /** Ends an attempt. Returns whether its result is accepted. */
  finish(claim: Claim, outcome: AttemptOutcome): boolean {
    const delivery = this.#holding(claim);
    if (delivery === undefined) return false;
    delivery.current = null;
    delivery.leasedUntilMs = null;
    delivery.attemptsMade += 1;
    delivery.isSingle = false;
    delivery.trigger = "schedule";
    delivery.state = outcome.state;
    if (outcome.state === "awaiting_retry") {
      delivery.retriesUsed += 1;
      delivery.dueAtMs = this.#nowMs + outcome.delayMs;
    }
    return true;
  }

  handBack(claim: Claim): void {
    const delivery = this.#holding(claim);
    if (delivery === undefined) return;
    delivery.current = null;
    delivery.leasedUntilMs = null;
  }

  retry(delivery: ModelDelivery, { restart, again }: { restart: boolean; again: boolean }): RetryOutcome {
    this.#endLeases();
    if (delivery.leasedUntilMs !== null) return "in_flight";
    if (delivery.state === "delivered" && !again) return "delivered";
    if (isEnded(delivery)) {
      delivery.isSingle = !restart;
      if (restart) delivery.retriesUsed = 0;
      delivery.state = "awaiting_retry";
    }
    if (delivery.state === "awaiting_retry") delivery.trigger = "manual";
    delivery.dueAtMs = Math.min(delivery.dueAtMs, this.#nowMs);
    return "queued";
  }

  /** Whether the lease of the current claim has expired: the model cannot predict whether its result is still accepted. */
  isLost({ current, leasedUntilMs }: ModelDelivery): boolean {
    return current !== null && (leasedUntilMs === null || leasedUntilMs <= this.#nowMs);
  }

  #holding(claim: Claim): ModelDelivery | undefined {
    return this.deliveries.find(({ current }) => current === claim);
  }

  #isDue(delivery: ModelDelivery): boolean {
    return !isEnded(delivery) && delivery.leasedUntilMs === null && delivery.dueAtMs <= this.#nowMs;
  }

  #endLeases(): void {
    for (const delivery of this.deliveries) {
      if ((delivery.leasedUntilMs ?? Number.POSITIVE_INFINITY) <= this.#nowMs) delivery.leasedUntilMs = null;
    }
  }
}

export function isEnded({ state }: ModelDelivery): boolean {
  return state === "delivered" || state === "permanently_failed";
}

function agrees(delivery: ModelDelivery, claim: Claim): boolean {
  return (
    claim.endpointId === delivery.endpointId &&
    claim.attemptNumber === delivery.attemptsMade + 1 &&
    claim.retriesUsed === delivery.retriesUsed &&
    claim.isSingle === delivery.isSingle &&
    claim.trigger === delivery.trigger &&
    claim.fence > (delivery.current?.fence ?? -1)
  );
}
