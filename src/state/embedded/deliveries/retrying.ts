import type {
  DeliveryQueue,
  ReplayRequest,
  ReplayStep,
  RetryOutcome,
  RetryRequest,
} from "../../../domain/webhooks/delivery-queue.js";
import { integer, type SqliteDatabase, type SqlRow, text, textOrNull } from "../database/sqlite.js";
import type { StoreLink } from "../database/worker-link.js";
import { isFree } from "./claiming.js";
import type { DueListeners, QueueRows } from "./endpoints.js";
import { createFirstCreatedAt } from "./listing.js";

/** Manual retries of one delivery (WH-46, WH-47), and replays of an endpoint's deliveries in steps (WH-48). */
export function createRetryVerbs(db: SqliteDatabase, queues: QueueRows) {
  const firstCreatedAt = createFirstCreatedAt(db);
  const find = db.prepare(
    `SELECT number, endpoint_id, state, is_purged, (SELECT status FROM endpoints WHERE id = endpoint_id) AS endpoint,
       CASE WHEN ${isFree("?3")} THEN 0 ELSE 1 END AS is_held
     FROM deliveries WHERE account = ?1 AND id = ?2`,
  );
  const hasten = db.prepare(
    "UPDATE deliveries SET due_at_ms = min(due_at_ms, ?2), is_manual = 1, asked_by = ?3 WHERE number = ?1",
  );
  const some = db.prepare(
    `SELECT number, state, is_purged, replay_id FROM deliveries INDEXED BY deliveries_by_endpoint
     WHERE endpoint_id = ?1 AND number >= ?2 AND number < ?3 AND account = ?4 ORDER BY number LIMIT ?5`,
  );
  const reopen = db.prepare(
    `UPDATE deliveries SET state = 'awaiting_retry', reason = NULL, due_at_ms = ?2, ended_at_ms = NULL, is_manual = 1,
       asked_by = ?3, is_single = 1 - ?4, retries_used = CASE WHEN ?4 THEN 0 ELSE retries_used END,
       replay_id = coalesce(?5, replay_id)
     WHERE number = ?1`,
  );
  return {
    reads: {},
    writes: {
      retryDelivery({ account, deliveryId, by, restart, again }: RetryRequest, nowMs: number): RetryOutcome {
        const row = find.get(account, deliveryId, nowMs);
        if (row === undefined) return "unknown";
        const refusal = refusalOf(row, again);
        if (refusal !== null) return refusal;
        const number = integer(row, "number");
        const endpointId = text(row, "endpoint_id");
        const state = text(row, "state");
        // A pending delivery is due anyway, and its first attempt counts as part of the schedule, not as a manual retry.
        if (state === "pending") return "queued";
        if (state === "awaiting_retry") hasten.run(number, nowMs, by);
        else reopen.run(number, nowMs, by, restart ? 1 : 0, null);
        queues.note({ endpointId, account, opened: state === "awaiting_retry" ? 0 : 1, readyAtMs: nowMs });
        return "queued";
      },
      replayDeliveries(request: ReplayRequest, nowMs: number): ReplayStep {
        const { account, endpointId, fromMs, toMs, replayId, by, restart, after, max } = request;
        const first = after === null ? firstCreatedAt(fromMs) : Number(after) + 1;
        const rows = some.all(endpointId, first, firstCreatedAt(toMs), account, max);
        const counts = { queued: 0, waiting: 0, delivered: 0, failed: 0 };
        for (const row of rows) {
          const count = countOf(row, request);
          if (count === null) continue;
          if (count === "queued") {
            const dueAtMs = nowMs + request.firstInMs + counts.queued * request.spacingMs;
            reopen.run(integer(row, "number"), dueAtMs, by, restart ? 1 : 0, replayId);
            queues.note({ endpointId, account, opened: 1, readyAtMs: dueAtMs });
          }
          counts[count] += 1;
        }
        const last = rows.at(-1);
        return { ...counts, next: last === undefined || rows.length < max ? null : text(last, "number") };
      },
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

/**
 * Name of the count to which a replay adds a delivery, `queued` if it is to be queued now; null: the replay does not
 * include it.
 */
function countOf(row: SqlRow, { replayId, which }: ReplayRequest): Exclude<keyof ReplayStep, "next"> | null {
  const state = text(row, "state");
  const hasFailed = state === "permanently_failed";
  const isDelivered = state === "delivered";
  if (textOrNull(row, "replay_id") === replayId) return hasFailed ? "failed" : isDelivered ? "delivered" : "waiting";
  if (integer(row, "is_purged") === 1) return null;
  return hasFailed || (isDelivered && which === "all") ? "queued" : null;
}

export function createRetries(
  link: StoreLink<ReturnType<typeof createRetryVerbs>>,
  now: () => number,
  due: DueListeners,
): Pick<DeliveryQueue, "retryNow" | "replay"> {
  return {
    async retryNow(request) {
      const outcome = await link.write("retryDelivery", request, now());
      if (outcome === "queued") due.notify();
      return outcome;
    },
    async replay(request) {
      const step = await link.write("replayDeliveries", request, now());
      if (step.queued > 0) due.notify();
      return step;
    },
  };
}
