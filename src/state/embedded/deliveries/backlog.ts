import type { EndpointBacklog } from "../../../domain/webhooks/delivery-queue.js";
import { integer, integerOrNull, text } from "../sql-row.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import { isFree } from "./delivery-row.js";

const endpointsMax = 1_000;
/** Open deliveries that one step of counting looks at: some milliseconds. */
const countedMax = 20_000;

export interface CountStep {
  readonly due: number;
  /** Behind this number others follow; null: there are none. */
  readonly after: number | null;
}

/** How much waits (WH-51). What is open is counted as it changes, so that a million cost no more than one. */
export function createBacklog(db: SqliteDatabase) {
  const backlog = db.prepare(
    `SELECT account, endpoint_id, open,
       (SELECT due_at_ms FROM deliveries INDEXED BY deliveries_due
        WHERE endpoint_id = queues.endpoint_id AND due_at_ms <= ?1 AND ${isFree("?1")}
        ORDER BY due_at_ms LIMIT 1) AS oldest_due_at_ms
     FROM queues WHERE open > 0
     ORDER BY oldest_due_at_ms IS NULL, oldest_due_at_ms, account, endpoint_id LIMIT ${endpointsMax}`,
  );
  const count = db.prepare(
    `SELECT count(*) AS looked_at, max(number) AS last, count(*) FILTER (WHERE due_at_ms <= ?2) AS due FROM (
       SELECT number, due_at_ms FROM deliveries INDEXED BY deliveries_open
       WHERE due_at_ms IS NOT NULL AND number > ?1 ORDER BY number LIMIT ${countedMax})`,
  );
  // What is held was due.
  const held = db.prepare(
    "SELECT count(*) AS held FROM leases WHERE delivery_number > ? AND delivery_number <= ? AND ends_at_ms > ?",
  );
  return {
    backlog: (nowMs: number): readonly EndpointBacklog[] =>
      backlog.all(nowMs).map((row) => ({
        account: text(row, "account"),
        endpointId: text(row, "endpoint_id"),
        open: integer(row, "open"),
        oldestDueAtMs: integerOrNull(row, "oldest_due_at_ms"),
      })),
    /** Of the open deliveries after this number, 20,000 at most: how many are due and in nobody's hands. */
    countDue(after: number, nowMs: number): CountStep {
      const row = count.get(after, nowMs);
      if (row === undefined || integer(row, "looked_at") === 0) return { due: 0, after: null };
      const last = integer(row, "last");
      const underWay = held.get(after, last, nowMs);
      const due = integer(row, "due") - (underWay === undefined ? 0 : integer(underWay, "held"));
      return { due, after: integer(row, "looked_at") < countedMax ? null : last };
    },
  };
}
