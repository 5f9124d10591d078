import { periodAt } from "../../domain/events/events.js";
import type { SqliteDatabase } from "./database/sqlite.js";

/**
 * Maximum remaining time of a lease that was taken while the clock was ahead. An attempt that still runs ends within this
 * time.
 */
const leaseMs = 15_000;
/** Longest configurable delay of a retry, with a margin. */
const longestDelayMs = 31 * 86_400_000;
const hourMs = 3_600_000;

/**
 * Returns the verb that corrects ends of leases and due times of deliveries that were written while the clock was ahead;
 * the delays of retries are kept. Without it these deliveries would wait until the clock reaches those times. It blocks the
 * thread for some microseconds for each open delivery.
 */
export function createReschedule(db: SqliteDatabase): (nowMs: number) => number {
  const shortenLeases = db.prepare("UPDATE leases SET ends_at_ms = ?1 + ?2 WHERE ends_at_ms > ?1 + ?2");
  /**
   * Time at which the due time was set: the start of the last attempt, else the creation. For a manual retry it is earlier
   * than the request.
   */
  const setAt = "coalesce(json_extract(attempts_json, '$[#-1].startedAtMs'), created_at_ms)";
  const reschedule = db.prepare(
    `UPDATE deliveries SET due_at_ms = ?1 + CASE WHEN ${setAt} > ?1 THEN max(0, due_at_ms - ${setAt}) ELSE 0 END
     WHERE due_at_ms IS NOT NULL AND due_at_ms > ?1 AND (due_at_ms > ?1 + ?2 OR ${setAt} > ?1)`,
  );
  const wakeQueues = db.prepare("UPDATE queues SET ready_at_ms = 0 WHERE open > 0 AND ready_at_ms > ?");
  return (nowMs) => {
    shortenLeases.run(nowMs, leaseMs);
    const { changes } = reschedule.run(nowMs, longestDelayMs);
    wakeQueues.run(nowMs);
    return Number(changes);
  };
}

/** Columns with times that are set to the present if they are later. Audit records and expiry times of keys are not changed. */
const presentColumns: readonly (readonly [table: string, ...columns: string[]])[] = [
  ["settled", "at_ms"],
  ["live_requests", "admitted_at_ms"],
  ["api_keys", "created_at_ms", "last_used_at_ms"],
  ["sessions", "last_seen_at_ms"],
  ["limits", "updated_at_ms"],
  ["thresholds", "created_at_ms", "updated_at_ms"],
  ["endpoints", "created_at_ms", "updated_at_ms", "last_success_at_ms", "last_failure_at_ms", "failing_since_ms"],
  ["deliveries", "created_at_ms", "ended_at_ms"],
  ["events", "at_ms"],
  ["request_logs", "received_at_ms"],
  ["responses", "created_at_ms"],
  ["models_seen", "first_seen_at_ms"],
  ["drains", "since_ms"],
];

const amounts = "requests, prompt_tokens, completion_tokens, cached_tokens, cost_nano";

/** Number of changed rows by table. Tables without changed rows are absent. */
export type RepairedRows = Readonly<Record<string, number>>;

/** Returns the verb that sets all times later than `nowMs` to `nowMs` and returns the number of changed rows. */
export function createTimeRepair(db: SqliteDatabase): (nowMs: number) => RepairedRows {
  const reschedule = createReschedule(db);
  return (nowMs) => repair(db, reschedule, nowMs);
}

function repair(db: SqliteDatabase, reschedule: (nowMs: number) => number, nowMs: number): RepairedRows {
  const changed: Record<string, number> = {};
  const count = (table: string, rows: number | bigint): void => {
    if (Number(rows) > 0) changed[table] = (changed[table] ?? 0) + Number(rows);
  };
  const day = periodAt("day", nowMs);
  const month = periodAt("month", nowMs);

  count("deliveries", reschedule(nowMs));
  const names = "account, key_id, model, operation";
  count("usage_hours", moveSums(db, "usage_hours", names, nowMs - (nowMs % hourMs)));
  count("usage_days", moveSums(db, "usage_days", names, day.startMs));
  const scope = "account, scope_kind, scope_id, period_kind";
  count("period_sums", moveSums(db, "period_sums", scope, day.startMs, "period_kind = 'day'"));
  count("period_sums", moveSums(db, "period_sums", scope, month.startMs, "period_kind = 'month'"));
  // Marks of reached values in later periods are deleted; the mark of a day ends with its date. The sums were moved and are
  // compared again in the present period.
  const forget = db.prepare(
    "DELETE FROM crossings WHERE period_end_ms > ?1 OR (period_end_ms > ?2 AND mark GLOB '*:????-??-??')",
  );
  count("crossings", forget.run(month.endMs, day.endMs).changes);
  // The correct expiry of these sessions is unknown, so they are deleted and users sign in again.
  count("sessions", db.prepare("DELETE FROM sessions WHERE created_at_ms > ?").run(nowMs).changes);
  for (const [table, ...columns] of presentColumns) {
    for (const column of columns) {
      count(table, db.prepare(`UPDATE ${table} SET ${column} = ?1 WHERE ${column} > ?1`).run(nowMs).changes);
    }
  }
  return changed;
}

/** Adds the sums of later periods to the one that starts at `startMs`. Returns the number of rows that were moved. */
function moveSums(db: SqliteDatabase, table: string, names: string, startMs: number, where = "true"): number {
  const added = amounts.replace(/\w+/g, "$& = $& + excluded.$&");
  db.prepare(
    `INSERT INTO ${table} (${names}, start_ms, ${amounts})
     SELECT ${names}, ?1, ${amounts.replace(/\w+/g, "sum($&)")} FROM ${table} WHERE start_ms > ?1 AND ${where}
     GROUP BY ${names}
     ON CONFLICT (${names}, start_ms) DO UPDATE SET ${added}`,
  ).run(startMs);
  return Number(db.prepare(`DELETE FROM ${table} WHERE start_ms > ?1 AND ${where}`).run(startMs).changes);
}
