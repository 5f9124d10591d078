import { deliveryId } from "../../domain/webhooks/delivery-id.js";
import type { Delivery } from "../../domain/webhooks/delivery-queue.js";
import type { EventDraft, EventType } from "../../domain/webhooks/event-draft.js";
import { integer, text } from "./sql-row.js";
import type { SqliteDatabase, SqlRow } from "./sqlite-binding.js";

/** Deliveries that wait to be sent: the verbs of DeliveryQueue and how a settlement adds to them. */
export function createDeliveryRows(db: SqliteDatabase) {
  const receivers = db.prepare(
    `SELECT id FROM endpoints WHERE account = ? AND status = 'enabled'
       AND EXISTS (SELECT 1 FROM json_each(events_json) WHERE value = ?)`,
  );
  const insert = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body)
     VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?6, ?7) ON CONFLICT DO NOTHING`,
  );
  const list = db.prepare("SELECT * FROM deliveries WHERE account = ? ORDER BY number LIMIT ?");
  const due = db.prepare("SELECT count(*) AS due FROM deliveries WHERE due_at_ms <= ?");
  return {
    /** One for each endpoint of the account that is enabled and wants such events; the same event again adds none. */
    emit(account: string, event: EventDraft, nowMs: number): void {
      for (const row of receivers.all(account, event.type)) {
        const endpointId = text(row, "id");
        insert.run(deliveryId(event.id, endpointId), account, event.id, event.type, endpointId, nowMs, event.body);
      }
    },
    list: (account: string, max: number): readonly Delivery[] => list.all(account, max).map(toDelivery),
    countDue: (nowMs: number): number => Number(due.get(nowMs)?.["due"] ?? 0),
  };
}

function toDelivery(row: SqlRow): Delivery {
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    eventId: text(row, "event_id"),
    eventType: text(row, "event_type") as EventType,
    endpointId: text(row, "endpoint_id"),
    state: "pending",
    createdAtMs: integer(row, "created_at_ms"),
    body: text(row, "body"),
  };
}
