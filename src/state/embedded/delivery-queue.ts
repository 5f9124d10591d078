import type { Delivery } from "../../domain/webhooks/delivery.js";
import type { DeliveryFilter, DeliveryQueue } from "../../domain/webhooks/delivery-queue.js";
import { finishedAttempt } from "./deliveries/finishing.js";
import type { StoreTime } from "./ledger.js";
import type { StoreLink } from "./worker-link.js";

/** Steps of one page: 100,000 deliveries and some tens of milliseconds. Where few fit, the next page goes on. */
const stepsMax = 200;

/**
 * The queue of the one process that has the file. Claims and what is handed back are written but not waited for on the
 * disk: a power cut that takes a claim takes the worker with it, and the delivery repeats.
 */
export function createDeliveryQueue(link: StoreLink, time: StoreTime, due: DueListeners): DeliveryQueue {
  return {
    claim: (options) => link.writeUnsynced("claimDeliveries", options, time.now()),
    finish: (request) => link.write("finishDelivery", finishedAttempt(request, time.now())),
    async handBack(claims) {
      if (claims.length === 0) return;
      const held = claims.map(({ fence, endpointId, account }) => ({ fence, endpointId, account }));
      await link.writeUnsynced("handBackDeliveries", held);
    },
    async retryNow(request) {
      const outcome = await link.write("retryDelivery", request, time.now());
      if (outcome === "queued") due.tell();
      return outcome;
    },
    async replay(request) {
      const step = await link.write("replayDeliveries", request, time.now());
      if (step.queued > 0) due.tell();
      return step;
    },
    find: (id) => link.read("findDelivery", id, time.now()),
    payload: (id) => link.read("deliveryPayload", id),
    list: (filter, page) => listPage(link, time, filter, page),
    backlog: () => link.read("deliveryBacklog", time.now()),
    due: () => countDue(link, time),
    onDue: (listener) => due.subscribe(listener),
  };
}

/** Step by step until the page is full, so that other requests come in between. */
async function listPage(
  link: StoreLink,
  time: StoreTime,
  filter: DeliveryFilter,
  { limit, after }: Parameters<DeliveryQueue["list"]>[1],
): ReturnType<DeliveryQueue["list"]> {
  const deliveries: Delivery[] = [];
  let lastNumber = 0;
  let below = after === null ? null : positionOf(after);
  for (let steps = 0; steps < stepsMax; steps += 1) {
    // One more than the page holds tells whether there is a next one.
    const step = await link.read("listDeliveries", filter, below, limit + 1 - deliveries.length, time.now());
    for (const { number, delivery } of step.found) {
      if (deliveries.length === limit) return { deliveries, next: String(lastNumber) };
      deliveries.push(delivery);
      lastNumber = number;
    }
    below = step.below;
    if (below === null) return { deliveries, next: null };
  }
  return { deliveries, next: String(below) };
}

/** A text that no page has given is behind the last one. */
function positionOf(after: string): number {
  const number = Number(after);
  return Number.isSafeInteger(number) ? number : 0;
}

async function countDue(link: StoreLink, time: StoreTime): Promise<number> {
  let due = 0;
  let after: number | null = 0;
  while (after !== null) {
    const step: { due: number; after: number | null } = await link.read("countDueDeliveries", after, time.now());
    due += step.due;
    after = step.after;
  }
  return due;
}

/** Who wants to know that something became due in this process. */
export class DueListeners {
  readonly #listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    // Its own function, so that the same listener may subscribe twice and end each by itself.
    const subscribed = (): void => listener();
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  }

  tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
