/** Fills a state with the keys and deliveries of long use, through the calls that the service makes. */
import type { ApiKeyRecord } from "../../src/domain/access/key-store.js";
import type { EventType } from "../../src/domain/events/events.js";
import type { State } from "../../src/domain/service/state.js";
import { type DeliveryState, deliveryId } from "../../src/domain/webhooks/delivery.js";
import type { AttemptOutcome, Claim } from "../../src/domain/webhooks/delivery-queue.js";
import { keyRecord } from "../suites/api-key-records.js";
import {
  attemptResult,
  event,
  failedForGood,
  fanOutAll,
  leaseMs,
  retryIn,
  succeeded,
  timedOut,
} from "../suites/delivery-records.js";
import { endpoint, settlement } from "./records.js";

/** Number of concurrent calls to the store, which batches them. */
const atOnce = 500;
const hourMs = 3_600_000;

/** Creates keys: one in ten of `team-a`, one in 100 revoked, one in 500 called rare. Returns their ids, newest first. */
export async function fillKeys(state: Pick<State, "keys">, count: number): Promise<readonly string[]> {
  const records = Array.from({ length: count }, (_, number) => keyRecord(number, keyChanges(number)));
  for (let from = 0; from < count; from += atOnce) {
    await Promise.all(records.slice(from, from + atOnce).map((record) => state.keys.insert(record)));
  }
  return records.map(({ id }) => id).toReversed();
}

function keyChanges(number: number): Partial<ApiKeyRecord> {
  return {
    name: number % 500 === 250 ? `Rare ${number}` : `service ${number}`,
    account: number % 10 === 0 ? "team-a" : "default",
    revokedAtMs: number % 100 === 50 ? 1_000 : null,
  };
}

export interface MadeDelivery {
  readonly id: string;
  readonly account: string;
  readonly endpointId: string;
  readonly eventType: EventType;
  readonly state: DeliveryState;
}

interface Receiver {
  readonly id: string;
  readonly account: string;
  readonly eventType: EventType;
}

const receiver = (letter: string, account: string, eventType: EventType): Receiver => ({
  id: `we_${letter.repeat(24)}`,
  account,
  eventType,
});

/** The endpoints. `busy` gets seven of ten deliveries, `rare` one in 1,000 and only among the first ones. */
export const receivers = {
  busy: receiver("a", "default", "request.completed"),
  failures: receiver("b", "default", "request.failed"),
  team: receiver("c", "team-a", "request.completed"),
  rare: receiver("d", "default", "usage.threshold_reached"),
} as const;

/**
 * Deliveries as settled requests create them, in order of creation. Most are delivered, one in 20 failed permanently, one
 * in 20 awaits a retry and the last 500 are pending.
 */
export async function fillDeliveries(state: State, count: number): Promise<readonly MadeDelivery[]> {
  for (const { id, account, eventType } of Object.values(receivers)) {
    await state.endpoints.insert(endpoint(id, { account, events: [eventType], maxInFlight: 64 }), 1_000);
  }
  const rareCount = Math.max(3, count / 1_000);
  const made: MadeDelivery[] = [];
  const ends = new Map<string, AttemptOutcome>();
  for (let from = 0; from < count; from += atOnce) {
    const isLast = from + atOnce >= count;
    const numbers = Array.from({ length: Math.min(atOnce, count - from) }, (_, position) => from + position);
    await Promise.all(
      numbers.map(async (number) => {
        const { id: endpointId, account, eventType } = number < rareCount ? receivers.rare : receiverOf(number);
        const drawn = event(number, eventType);
        const id = deliveryId(drawn.id, endpointId);
        const outcome = number < rareCount ? succeeded : outcomeOf(number);
        made[number] = { id, account, endpointId, eventType, state: isLast ? "pending" : outcome.state };
        ends.set(id, outcome);
        await state.ledger.settle(settlement(`req_long_${number}`, { account, event: drawn }));
      }),
    );
    if (isLast) await fanOutAll(state.deliveries);
    else await endAll(state, ends);
  }
  return made;
}

function receiverOf(number: number): Receiver {
  if (number % 10 === 9) return receivers.team;
  return number % 10 > 6 ? receivers.failures : receivers.busy;
}

function outcomeOf(number: number): AttemptOutcome {
  if (number % 20 === 0) return failedForGood;
  return number % 20 === 1 ? retryIn(hourMs) : succeeded;
}

/** Makes one attempt for every delivery that is due. */
async function endAll(state: State, ends: Map<string, AttemptOutcome>): Promise<void> {
  let claims: readonly Claim[];
  do {
    ({ claims } = await state.deliveries.claim({ max: 64, leaseMs }));
    await Promise.all(
      claims.map((claim) => {
        const outcome = ends.get(claim.deliveryId) ?? succeeded;
        const result = outcome.state === "delivered" ? attemptResult() : timedOut;
        return state.deliveries.finish({ claim, outcome, result });
      }),
    );
  } while (claims.length > 0);
  ends.clear();
}
