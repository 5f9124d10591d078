import type { RetryOutcome, RetryRequest } from "../../../domain/webhooks/delivery-queue.js";
import { integer, text, textOrNull } from "../sql-row.js";
import type { SqliteDatabase, SqlRow } from "../sqlite-binding.js";
import { isFree } from "./delivery-row.js";
import type { QueueRows } from "./queue-rows.js";
import type { Revive } from "./reviving.js";

/** Retries by hand (WH-46, WH-47). */
export function createRetrying(db: SqliteDatabase, queues: QueueRows, revive: Revive) {
  const find = db.prepare(
    `SELECT number, endpoint_id, state, is_purged, (SELECT status FROM endpoints WHERE id = endpoint_id) AS endpoint,
       CASE WHEN ${isFree("?3")} THEN 0 ELSE 1 END AS is_held
     FROM deliveries WHERE account = ?1 AND id = ?2`,
  );
  const hasten = db.prepare(
    "UPDATE deliveries SET due_at_ms = min(due_at_ms, ?2), is_manual = 1, asked_by = ?3 WHERE number = ?1",
  );
  return {
    retryNow({ account, deliveryId, by, restart, again }: RetryRequest, nowMs: number): RetryOutcome {
      const row = find.get(account, deliveryId, nowMs);
      const refusal = row === undefined ? "unknown" : refusalOf(row, again);
      if (row === undefined || refusal !== null) return refusal ?? "unknown";
      const number = integer(row, "number");
      const endpointId = text(row, "endpoint_id");
      const state = text(row, "state");
      // A pending one is due anyway, and its first attempt is the schedule's.
      if (state === "awaiting_retry") {
        hasten.run(number, nowMs, by);
        queues.note({ endpointId, account, opened: 0, readyAtMs: nowMs });
      } else if (state !== "pending") {
        revive({ number, endpointId, account, dueAtMs: nowMs, by, restart, replayId: null });
      }
      return "queued";
    },
  };
}

function refusalOf(row: SqlRow, again: boolean): RetryOutcome | null {
  if (integer(row, "is_held") === 1) return "in_flight";
  if (integer(row, "is_purged") === 1) return "purged";
  const endpoint = textOrNull(row, "endpoint");
  if (endpoint === null) return "endpoint_deleted";
  if (endpoint === "disabled") return "endpoint_disabled";
  return text(row, "state") === "delivered" && !again ? "delivered" : null;
}
