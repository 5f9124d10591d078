import { deliveryId } from "../../domain/webhooks/delivery-id.js";
import type { Delivery, DeliveryQueue } from "../../domain/webhooks/delivery-queue.js";
import type { EndpointRecord } from "../../domain/webhooks/endpoint-store.js";
import type { EventDraft } from "../../domain/webhooks/event-draft.js";
import { dropOldest } from "./bounded.js";

const deliveriesMax = 100_000;

/** Deliveries in memory; beyond 100,000 the oldest are dropped. */
export class DeliveryTable implements DeliveryQueue {
  /** In the order in which they were created. */
  readonly #byId = new Map<string, Delivery>();

  /** One for each endpoint that has none of this event (WH-11). */
  add(event: EventDraft, endpoints: readonly EndpointRecord[], atMs: number): void {
    for (const { id: endpointId, account } of endpoints) {
      const id = deliveryId(event.id, endpointId);
      if (this.#byId.has(id)) continue;
      const { id: eventId, type: eventType, body } = event;
      this.#byId.set(id, { id, account, eventId, eventType, endpointId, state: "pending", createdAtMs: atMs, body });
    }
    dropOldest(this.#byId, deliveriesMax);
  }

  async list(account: string, max: number): Promise<readonly Delivery[]> {
    return [...this.#byId.values()].filter((delivery) => delivery.account === account).slice(0, max);
  }

  async due(): Promise<number> {
    return this.#byId.size;
  }
}
