import type { DeliveryFailure } from "../../../domain/webhooks/delivery.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import { isFree } from "./delivery-row.js";
import { never, type QueueRows } from "./queue-rows.js";

export interface Drained {
  readonly endpointId: string;
  readonly account: string;
  readonly reason: DeliveryFailure;
}

/** Ends what waits for an endpoint that takes nothing any more (WH-30). */
export function createDraining(db: SqliteDatabase, queues: QueueRows) {
  const end = db.prepare(
    `UPDATE deliveries SET state = 'permanently_failed', reason = ?2, due_at_ms = NULL, ended_at_ms = ?3,
       is_manual = 0, asked_by = '', is_single = 0
     WHERE number IN (
       SELECT number FROM deliveries INDEXED BY deliveries_due
       WHERE endpoint_id = ?1 AND due_at_ms IS NOT NULL AND ${isFree("?3")} LIMIT ?4
     )`,
  );
  const endLeases = db.prepare("DELETE FROM leases WHERE endpoint_id = ? AND ends_at_ms <= ?");
  return {
    /** At most `max` deliveries, due or not, but none that is under way; how many it was. */
    drain({ endpointId, account, reason }: Drained, nowMs: number, max: number): number {
      // Whoever held one comes too late now, and must not end it a second time.
      endLeases.run(endpointId, nowMs);
      const ended = Number(end.run(endpointId, reason, nowMs, max).changes);
      queues.note({ endpointId, account, opened: -ended, readyAtMs: never });
      return ended;
    },
  };
}

export type Draining = ReturnType<typeof createDraining>;
