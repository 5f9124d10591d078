import { deliveredKeptMs, failedKeptMs } from "../../../domain/webhooks/delivery-queue.js";
import { integer } from "../sql-row.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import type { QueueRows } from "./queue-rows.js";

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
