import type { EventType } from "./event-draft.js";

/** One event on its way to one endpoint. */
export interface Delivery {
  /** `dlv_` and 32 hex digits, made of event and endpoint: the same event creates no second one (WH-11). */
  readonly id: string;
  readonly account: string;
  readonly eventId: string;
  readonly eventType: EventType;
  readonly endpointId: string;
  readonly state: "pending";
  readonly createdAtMs: number;
  /** JSON, as it will be sent. */
  readonly body: string;
}

/** Deliveries that wait to be sent. */
export interface DeliveryQueue {
  /** In the order in which they were created. */
  list(account: string, max: number): Promise<readonly Delivery[]>;
  /** Deliveries that are due, over all accounts. */
  due(): Promise<number>;
}
