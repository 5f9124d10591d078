import {
  deliveredKeptMax,
  deliveredKeptMs,
  type EndpointBacklog,
  failedKeptMs,
  openDeliveriesMax,
} from "../../../domain/webhooks/delivery-queue.js";
import { integer, integerOrNull, type SqliteDatabase, text } from "../database/sqlite.js";
import { createClaiming, createDraining } from "./claiming.js";
import { createCreationOrder, isFree } from "./delivery-row.js";
import { createEndpointHealth, createFinishing } from "./finishing.js";
import { createListing } from "./listing.js";
import { createDeliveryMaking, createQueueRows, type QueueRows } from "./making.js";
import { createReplay, createRetrying, createReviving } from "./retrying.js";

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

const keptMs = { delivered: deliveredKeptMs, permanently_failed: failedKeptMs } as const;

/**
 * What is forgotten of deliveries that have ended (WH-50): first payload and attempts, after as long again the rest. Of
 * the delivered ones `deliveredMax` keep their payload, the newest.
 */
export function createDeliveryPurging(db: SqliteDatabase, queues: QueueRows, deliveredMax: number) {
  const oldest = (isPurged: 0 | 1): string =>
    `number IN (SELECT number FROM deliveries INDEXED BY deliveries_ended
       WHERE state = ?1 AND is_purged = ${isPurged} AND ended_at_ms IS NOT NULL AND ended_at_ms <= ?2
       ORDER BY ended_at_ms, number LIMIT ?3)`;
  const strip = db.prepare(`UPDATE deliveries SET body = '', attempts_json = '[]', is_purged = 1 WHERE ${oldest(0)}`);
  const remove = db.prepare(`DELETE FROM deliveries WHERE ${oldest(1)}`);
  const countDelivered = db.prepare(
    `SELECT count(*) AS kept FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_ended
       WHERE state = 'delivered' AND is_purged = 0 AND ended_at_ms IS NOT NULL LIMIT ?)`,
  );
  /** Delivered ones that are too many, as far as `max`. */
  const excess = (max: number): number => {
    const row = countDelivered.get(deliveredMax + max);
    return row === undefined ? 0 : Math.max(0, integer(row, "kept") - deliveredMax);
  };
  return {
    /** At most `max` deliveries; how many it was. */
    purge(max: number, nowMs: number): number {
      queues.writeNoted();
      let purged = 0;
      for (const [state, forMs] of Object.entries(keptMs)) {
        purged += Number(strip.run(state, nowMs - forMs, max - purged).changes);
        purged += Number(remove.run(state, nowMs - 2 * forMs, max - purged).changes);
      }
      if (purged < max) purged += Number(strip.run("delivered", nowMs, excess(max - purged)).changes);
      queues.forgetEmpty();
      return purged;
    },
  };
}

export type DeliveryPurging = ReturnType<typeof createDeliveryPurging>;

const endpointsMax = 1_000;
/** Open deliveries that one step of counting looks at: some milliseconds. */
const countedMax = 20_000;

export interface CountStep {
  readonly due: number;
  /** Behind this number others follow; null: there are none. */
  readonly after: number | null;
}

/** How much waits (WH-51). What is open is counted as it changes, so that a million cost no more than one. */
export function createBacklog(db: SqliteDatabase) {
  const backlog = db.prepare(
    `SELECT account, endpoint_id, open,
       (SELECT due_at_ms FROM deliveries INDEXED BY deliveries_due
        WHERE endpoint_id = queues.endpoint_id AND due_at_ms <= ?1 AND ${isFree("?1")}
        ORDER BY due_at_ms LIMIT 1) AS oldest_due_at_ms
     FROM queues WHERE open > 0
     ORDER BY oldest_due_at_ms IS NULL, oldest_due_at_ms, account, endpoint_id LIMIT ${endpointsMax}`,
  );
  const count = db.prepare(
    `SELECT count(*) AS looked_at, max(number) AS last, count(*) FILTER (WHERE due_at_ms <= ?2) AS due FROM (
       SELECT number, due_at_ms FROM deliveries INDEXED BY deliveries_open
       WHERE due_at_ms IS NOT NULL AND number > ?1 ORDER BY number LIMIT ${countedMax})`,
  );
  // What is held was due.
  const held = db.prepare(
    "SELECT count(*) AS held FROM leases WHERE delivery_number > ? AND delivery_number <= ? AND ends_at_ms > ?",
  );
  return {
    backlog: (nowMs: number): readonly EndpointBacklog[] =>
      backlog.all(nowMs).map((row) => ({
        account: text(row, "account"),
        endpointId: text(row, "endpoint_id"),
        open: integer(row, "open"),
        oldestDueAtMs: integerOrNull(row, "oldest_due_at_ms"),
      })),
    /** Of the open deliveries after this number, 20,000 at most: how many are due and in nobody's hands. */
    countDue(after: number, nowMs: number): CountStep {
      const row = count.get(after, nowMs);
      if (row === undefined || integer(row, "looked_at") === 0) return { due: 0, after: null };
      const last = integer(row, "last");
      const underWay = held.get(after, last, nowMs);
      const due = integer(row, "due") - (underWay === undefined ? 0 : integer(underWay, "held"));
      return { due, after: integer(row, "looked_at") < countedMax ? null : last };
    },
  };
}
