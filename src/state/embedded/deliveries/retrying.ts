import type { ReplayRequest, ReplayStep, RetryOutcome, RetryRequest } from "../../../domain/webhooks/delivery-queue.js";
import { integer, type SqliteDatabase, type SqlRow, text, textOrNull } from "../database/sqlite.js";
import { type FirstCreatedAt, isFree } from "./delivery-row.js";
import type { QueueRows } from "./making.js";

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

export interface Revival {
  readonly number: number;
  readonly endpointId: string;
  readonly account: string;
  readonly dueAtMs: number;
  readonly by: string;
  readonly restart: boolean;
  /** Null: it keeps the one that it has. */
  readonly replayId: string | null;
}

/** Makes a delivery that has ended due again, because a person asked for it: for one attempt, or for a whole schedule. */
export function createReviving(db: SqliteDatabase, queues: QueueRows) {
  const revive = db.prepare(
    `UPDATE deliveries SET state = 'awaiting_retry', reason = NULL, due_at_ms = ?2, ended_at_ms = NULL, is_manual = 1,
       asked_by = ?3, is_single = 1 - ?4, retries_used = CASE WHEN ?4 THEN 0 ELSE retries_used END,
       replay_id = coalesce(?5, replay_id)
     WHERE number = ?1`,
  );
  return ({ number, endpointId, account, dueAtMs, by, restart, replayId }: Revival): void => {
    revive.run(number, dueAtMs, by, restart ? 1 : 0, replayId);
    queues.note({ endpointId, account, opened: 1, readyAtMs: dueAtMs });
  };
}

export type Revive = ReturnType<typeof createReviving>;
