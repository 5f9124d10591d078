import type { DeliveryPurging } from "./deliveries/purging.js";
import type { SqliteDatabase } from "./sqlite-binding.js";

const dayMs = 86_400_000;

interface Kept {
  /** Deletes what is older than `?1`, at most `?2` rows. */
  readonly sql: string;
  readonly forMs: number;
}

/** A period begins at most 31 days before it ends. */
const longestPeriodMs = 31 * dayMs;

const kept: readonly Kept[] = [
  // The newest marker stays: it is how the store knows its time after a restart.
  { sql: oldest("settled", "at_ms", "request_id", "AND at_ms < (SELECT max(at_ms) FROM settled)"), forMs: dayMs },
  { sql: oldest("usage_hours", "start_ms", "account, start_ms, key_id, model"), forMs: 90 * dayMs },
  { sql: oldest("usage_days", "start_ms", "account, start_ms, key_id, model"), forMs: 731 * dayMs },
  {
    sql: oldest("period_sums", "start_ms", "account, scope_kind, scope_id, period_kind, start_ms"),
    forMs: 60 * dayMs + longestPeriodMs,
  },
  { sql: oldest("crossings", "period_end_ms", "mark"), forMs: 60 * dayMs },
  { sql: oldest("audit", "at_ms", "id"), forMs: 400 * dayMs },
  { sql: oldest("sessions", "expires_at_ms", "id"), forMs: 0 },
];

/** Removes what is older than its time (USE-15, KEY-23, WH-50), the oldest first and table by table. */
export function createPurgeRows(db: SqliteDatabase, deliveries: DeliveryPurging) {
  const steps = kept.map(({ sql, forMs }) => ({ remove: db.prepare(sql), forMs }));
  return {
    /** At most `max` rows of all tables together; how many it was. */
    purge(max: number, nowMs: number): number {
      let removed = 0;
      for (const { remove, forMs } of steps) {
        if (removed < max) removed += Number(remove.run(nowMs - forMs, max - removed).changes);
      }
      return removed < max ? removed + deliveries.purge(max - removed, nowMs) : removed;
    },
  };
}

function oldest(table: string, time: string, key: string, condition = ""): string {
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${time} < ?1 ${condition} ORDER BY ${time} LIMIT ?2)`;
}
