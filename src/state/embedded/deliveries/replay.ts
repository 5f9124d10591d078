import type { ReplayRequest, ReplayStep } from "../../../domain/webhooks/delivery-queue.js";
import { integer, text, textOrNull } from "../sql-row.js";
import type { SqliteDatabase, SqlRow } from "../sqlite-binding.js";
import type { FirstCreatedAt } from "./creation-order.js";
import type { Revive } from "./reviving.js";

/** Many deliveries of one endpoint that are sent again, in steps (WH-48). */
export function createReplay(db: SqliteDatabase, firstCreatedAt: FirstCreatedAt, revive: Revive) {
  const some = db.prepare(
    `SELECT number, state, is_purged, replay_id FROM deliveries INDEXED BY deliveries_by_endpoint
     WHERE endpoint_id = ?1 AND number >= ?2 AND number < ?3 AND account = ?4 ORDER BY number LIMIT ?5`,
  );
  return {
    replay(request: ReplayRequest, nowMs: number): ReplayStep {
      const { account, endpointId, fromMs, toMs, replayId, by, restart, after, max } = request;
      const first = after === null ? firstCreatedAt(fromMs) : Number(after) + 1;
      const rows = some.all(endpointId, first, firstCreatedAt(toMs), account, max);
      const counts = { queued: 0, waiting: 0, delivered: 0, failed: 0 };
      for (const row of rows) {
        const count = placeIn(row, request);
        if (count === null) continue;
        if (count === "queued") {
          const dueAtMs = nowMs + request.firstInMs + counts.queued * request.spacingMs;
          revive({ number: integer(row, "number"), endpointId, account, dueAtMs, by, restart, replayId });
        }
        counts[count] += 1;
      }
      const last = rows.at(-1);
      return { ...counts, next: last === undefined || rows.length < max ? null : text(last, "number") };
    },
  };
}

/** What the replay counts it as, `queued` when it is to be queued now; null: it is none of its deliveries. */
function placeIn(row: SqlRow, { replayId, which }: ReplayRequest): Exclude<keyof ReplayStep, "next"> | null {
  const state = text(row, "state");
  const hasFailed = state === "permanently_failed";
  const isDelivered = state === "delivered";
  if (textOrNull(row, "replay_id") === replayId) return hasFailed ? "failed" : isDelivered ? "delivered" : "waiting";
  if (integer(row, "is_purged") === 1) return null;
  return hasFailed || (isDelivered && which === "all") ? "queued" : null;
}
