import { deliveredKeptMax, openDeliveriesMax } from "../../../domain/webhooks/delivery-queue.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import { createBacklog } from "./backlog.js";
import { createClaiming } from "./claiming.js";
import { createCreationOrder } from "./creation-order.js";
import { createDraining } from "./draining.js";
import { createEndpointHealth } from "./endpoint-health.js";
import { createFinishing } from "./finishing.js";
import { createListing } from "./listing.js";
import { createDeliveryMaking } from "./making.js";
import { createDeliveryPurging } from "./purging.js";
import { createQueueRows } from "./queue-rows.js";
import { createReplay } from "./replay.js";
import { createRetrying } from "./retrying.js";
import { createReviving } from "./reviving.js";

export interface DeliveryBounds {
  /** Of an account (WH-52). */
  readonly openDeliveriesMax: number;
  /** Delivered ones that keep their payload (WH-50). */
  readonly deliveredKeptMax: number;
}

export const deliveryBounds: DeliveryBounds = { openDeliveriesMax, deliveredKeptMax };

/** Deliveries in the file: the verbs of DeliveryQueue, and how a settlement makes them. */
export function createDeliveryRows(db: SqliteDatabase, bounds: DeliveryBounds) {
  const queues = createQueueRows(db);
  const health = createEndpointHealth(db);
  const firstCreatedAt = createCreationOrder(db);
  const revive = createReviving(db, queues);
  return {
    queues,
    health,
    ...createDeliveryMaking(db, queues, bounds.openDeliveriesMax),
    ...createClaiming(db, queues, createDraining(db, queues)),
    ...createFinishing(db, queues, health),
    ...createRetrying(db, queues, revive),
    ...createReplay(db, firstCreatedAt, revive),
    ...createListing(db, firstCreatedAt),
    ...createBacklog(db),
    ...createDeliveryPurging(db, queues, bounds.deliveredKeptMax),
  };
}
