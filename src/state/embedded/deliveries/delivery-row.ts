import type { EventType } from "../../../domain/events/event.js";
import type { Attempt, Delivery, DeliveryFailure, DeliveryState } from "../../../domain/webhooks/delivery.js";
import { integer, integerOrNull, type SqliteDatabase, type SqlRow, text, textOrNull } from "../database/sqlite.js";

/**
 * SQL, true of a row of `deliveries` that nobody holds at the time of the parameter `now`. A lease that ran out holds
 * nothing, so a delivery that its worker left is again as it was before, without a write.
 */
export function isFree(now: `?${number}`): string {
  return `NOT EXISTS (SELECT 1 FROM leases WHERE delivery_number = deliveries.number AND ends_at_ms > ${now})`;
}

/** What `toDelivery` reads. `now` is the parameter with the store's time. */
export function deliveryColumns(now: `?${number}`): string {
  return `number, id, account, event_id, event_type, endpoint_id, reason, created_at_ms, due_at_ms, attempts_made,
    attempts_json, is_purged, replay_id, CASE WHEN ${isFree(now)} THEN state ELSE 'delivery_attempted' END AS state`;
}

export function toDelivery(row: SqlRow): Delivery {
  const state = text(row, "state") as DeliveryState;
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    eventId: text(row, "event_id"),
    eventType: text(row, "event_type") as EventType,
    endpointId: text(row, "endpoint_id"),
    state,
    reason: textOrNull(row, "reason") as DeliveryFailure | null,
    createdAtMs: integer(row, "created_at_ms"),
    nextAttemptAtMs: state === "delivery_attempted" ? null : integerOrNull(row, "due_at_ms"),
    attemptsMade: integer(row, "attempts_made"),
    attempts: JSON.parse(text(row, "attempts_json")) as Attempt[],
    isPurged: integer(row, "is_purged") === 1,
    replayId: textOrNull(row, "replay_id"),
  };
}

/**
 * Numbers rise with the time of making, because the store's time never goes back. So a range of time is a range of
 * numbers, and every index that ends with the number also serves times.
 */
export function createCreationOrder(db: SqliteDatabase) {
  const highest = db.prepare("SELECT max(number) AS highest FROM deliveries");
  const atOrAfter = db.prepare(
    "SELECT number, created_at_ms FROM deliveries WHERE number >= ? ORDER BY number LIMIT 1",
  );
  /** The least number that belongs to this time or a later one; above all others when none does. About 20 look-ups. */
  return (atMs: number): number => {
    let low = 0;
    let high = Number(highest.get()?.["highest"] ?? 0) + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = atOrAfter.get(middle);
      if (row === undefined || integer(row, "created_at_ms") >= atMs) high = middle;
      else low = integer(row, "number") + 1;
    }
    return low;
  };
}

export type FirstCreatedAt = ReturnType<typeof createCreationOrder>;
