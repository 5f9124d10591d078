import type { EventDraft } from "../../src/domain/events/events.js";
import type { State } from "../../src/domain/service/state.js";
import { type AttemptResult, type Delivery, deliveryId } from "../../src/domain/webhooks/delivery.js";
import {
  type AttemptOutcome,
  type Claim,
  type DeliveryFilter,
  type DeliveryQueue,
  fanOutMax,
} from "../../src/domain/webhooks/delivery-queue.js";
import type { EndpointHealth, EndpointRecord, KeptEndpoint } from "../../src/domain/webhooks/endpoint-store.js";
import { settlement } from "../support/records.js";
import type { StateHarness } from "./state-harness.js";

export const leaseMs = 15_000;
/** Maximum number of steps of a loop that should end. */
const stepsMax = 1_000;

export const succeeded: AttemptOutcome = { state: "delivered" };
export const failedForGood: AttemptOutcome = { state: "permanently_failed", reason: "retries_used_up" };
export const retryIn = (delayMs: number): AttemptOutcome => ({ state: "awaiting_retry", delayMs });

export const anyDelivery: DeliveryFilter = {
  account: null,
  state: null,
  endpointId: null,
  eventType: null,
  fromMs: null,
  toMs: null,
  replayId: null,
};

/** An event whose body has multi-byte characters. */
export function event(number: number, type: EventDraft["type"] = "request.completed"): EventDraft {
  return {
    id: `evt_${String(number).padStart(32, "0")}`,
    type,
    body: `{"id":"evt_${number}","text":"naïve 'quoted' 日本"}`,
  };
}

/** A response with status 200. */
export function attemptResult(changes: Partial<AttemptResult> = {}): AttemptResult {
  return {
    startedAtMs: 1_000,
    latencyMs: 12,
    status: 200,
    error: null,
    ip: "203.0.113.7",
    response: "ok",
    retryAfter: null,
    ...changes,
  };
}

/** Result of an attempt that timed out. */
export const timedOut = attemptResult({ latencyMs: 5_000, status: null, error: "timeout", ip: null, response: null });

/** Creates the deliveries of all waiting events. */
export async function fanOutAll(queue: DeliveryQueue): Promise<void> {
  for (let step = 0; step < stepsMax; step++) if (!(await queue.fanOut(fanOutMax))) return;
  throw new Error("there are always more events");
}

/** Every delivery that matches the filter, newest first. */
export async function listAll(queue: DeliveryQueue, filter: Partial<DeliveryFilter> = {}): Promise<Delivery[]> {
  await fanOutAll(queue);
  const found: Delivery[] = [];
  let after: string | null = null;
  do {
    const page = await queue.list({ ...anyDelivery, ...filter }, { limit: 100, after });
    found.push(...page.deliveries);
    after = page.next;
  } while (after !== null);
  return found;
}

/** Creates events and delivers them like a dispatcher. */
export class DeliveryDesk {
  readonly #harness: StateHarness;
  #made = 0;

  constructor(harness: StateHarness) {
    this.#harness = harness;
  }

  get state(): State {
    return this.#harness.state;
  }

  get queue(): DeliveryQueue {
    return this.#harness.state.deliveries;
  }

  /** Settles one more request with an event and creates its deliveries; returns the id of the one to the endpoint. */
  async emit(endpointId: string, changes: { account?: string; type?: EventDraft["type"] } = {}): Promise<string> {
    this.#made += 1;
    const { account = "a", type = "request.completed" } = changes;
    const made = event(this.#made, type);
    await this.state.ledger.settle(settlement(`req_made_${this.#made}`, { account, event: made }));
    await this.queue.fanOut(fanOutMax);
    return deliveryId(made.id, endpointId);
  }

  /** Settles several requests in one batch; returns the ids of their deliveries in order of creation. */
  emitMany(count: number, endpointId: string, account = "a"): Promise<string[]> {
    return Promise.all(Array.from({ length: count }, () => this.emit(endpointId, { account })));
  }

  async insert(record: EndpointRecord): Promise<void> {
    await this.state.endpoints.insert(record, 1_000);
  }

  async claim(max = 64): Promise<readonly Claim[]> {
    return (await this.queue.claim({ max, leaseMs })).claims;
  }

  /** Claims one delivery. Throws if none is due. */
  async claimOne(): Promise<Claim> {
    const [claim] = await this.claim(1);
    if (claim === undefined) throw new Error("nothing is due");
    return claim;
  }

  finish(claim: Claim, outcome: AttemptOutcome, result?: AttemptResult): Promise<EndpointHealth | null> {
    const fitting = result ?? (outcome.state === "delivered" ? attemptResult() : timedOut);
    return this.queue.finish({ claim, result: fitting, outcome });
  }

  /** Claims one delivery and ends its attempt with this result. */
  async attempt(outcome: AttemptOutcome, result?: AttemptResult): Promise<Claim> {
    const claim = await this.claimOne();
    await this.finish(claim, outcome, result);
    return claim;
  }

  /** Claims until nothing is due, so that queues of disabled endpoints are drained. */
  async drain(): Promise<readonly Claim[]> {
    const claims: Claim[] = [];
    for (let asked = 0; asked < stepsMax; asked++) {
      const claimed = await this.queue.claim({ max: 64, leaseMs });
      claims.push(...claimed.claims);
      if (claimed.nextInMs !== 0) return claims;
    }
    throw new Error("there is always more to claim");
  }

  /** The delivery; throws if it does not exist. */
  async find(id: string): Promise<Delivery> {
    const delivery = await this.queue.find(id);
    if (delivery === null) throw new Error(`there is no delivery ${id}`);
    return delivery;
  }

  /** The endpoint of account `a`; throws if it does not exist. */
  async endpoint(id: string): Promise<KeptEndpoint> {
    const kept = await this.state.endpoints.find("a", id);
    if (kept === null) throw new Error(`there is no endpoint ${id}`);
    return kept;
  }

  /** Changes an endpoint of account `a` as an administrator would. */
  async change(id: string, changes: Partial<EndpointRecord>): Promise<void> {
    const { record } = await this.endpoint(id);
    const answer = await this.state.endpoints.replace({ ...record, ...changes, version: record.version + 1 });
    if (answer !== "replaced") throw new Error(`the endpoint is ${answer}`);
  }

  async disable(id: string): Promise<void> {
    await this.change(id, { status: "disabled", disabledReason: "by_hand" });
  }

  /** Advances the time until the delivery is due. */
  async untilDue(id: string): Promise<void> {
    const { nextAttemptAtMs } = await this.find(id);
    if (nextAttemptAtMs === null) throw new Error(`${id} is not going to be due`);
    await this.#harness.advance(Math.max(0, nextAttemptAtMs - this.state.now()));
  }

  /** Purges until nothing expired is left. */
  async purgeAll(): Promise<void> {
    for (let step = 0; step < stepsMax; step++) {
      if ((await this.state.purge(1_000)) === 0) return;
    }
    throw new Error("there is always more to purge");
  }
}
