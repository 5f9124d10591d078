import type { EventDraft } from "../../../domain/events/event.js";
import { deliveryId } from "../../../domain/webhooks/delivery.js";
import { text } from "../sql-row.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import type { QueueRows } from "./queue-rows.js";

/** How deliveries come to be, as a part of a settlement. An account may have `openMax` that have not ended. */
export function createDeliveryMaking(db: SqliteDatabase, queues: QueueRows, openMax: number) {
  const receivers = db.prepare(
    `SELECT id FROM endpoints WHERE account = ? AND status = 'enabled'
       AND EXISTS (SELECT 1 FROM json_each(events_json) WHERE value = ?)`,
  );
  const insertDue = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body)
     VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?6, ?7) ON CONFLICT DO NOTHING`,
  );
  const insertEnded = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, reason, created_at_ms, ended_at_ms,
       body)
     VALUES (?1, ?2, ?3, ?4, ?5, 'permanently_failed', 'overflow', ?6, ?6, ?7) ON CONFLICT DO NOTHING`,
  );
  return {
    /**
     * One for each endpoint of the account that is enabled and wants such events; the same event again adds none. Those
     * for which there is no room fail at once (WH-52). How many are due now.
     */
    emit(account: string, event: EventDraft, nowMs: number): number {
      const rows = receivers.all(account, event.type);
      if (rows.length === 0) return 0;
      const room = openMax - queues.openOf(account);
      const { id, type, body } = event;
      let made = 0;
      for (const row of rows) {
        const endpointId = text(row, "id");
        const values = [deliveryId(id, endpointId), account, id, type, endpointId, nowMs, body] as const;
        if (made >= room) insertEnded.run(...values);
        else if (Number(insertDue.run(...values).changes) === 1) {
          queues.note({ endpointId, account, opened: 1, readyAtMs: nowMs });
          made += 1;
        }
      }
      return made;
    },
  };
}

export type DeliveryMaking = ReturnType<typeof createDeliveryMaking>;
