import type { EventType } from "../../../domain/events/event.js";
import type { Attempt, Delivery, DeliveryFailure, DeliveryState } from "../../../domain/webhooks/delivery.js";
import { integer, integerOrNull, text, textOrNull } from "../sql-row.js";
import type { SqlRow } from "../sqlite-binding.js";

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
