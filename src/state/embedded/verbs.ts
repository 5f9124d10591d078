import {
  deliveredKeptMax,
  deliveredKeptMs,
  failedKeptMs,
  openDeliveriesMax,
  waitingEventsMax,
} from "../../domain/webhooks/delivery-queue.js";
import { createAuditVerbs } from "./audit.js";
import { createBackupVerbs } from "./database/backup.js";
import { CollectedRows, integer, integerOrNull, type SqliteDatabase } from "./database/sqlite.js";
import { createClaimVerbs } from "./deliveries/claiming.js";
import { createEndpointHealth, createEndpointVerbs, createQueueRows, type QueueRows } from "./deliveries/endpoints.js";
import { createFanOut, type FanOut } from "./deliveries/fan-out.js";
import { createListVerbs } from "./deliveries/listing.js";
import { createRetryVerbs } from "./deliveries/retrying.js";
import { createReschedule, createTimeRepair } from "./future-times.js";
import { createKeyVerbs } from "./keys.js";
import { createLimitVerbs } from "./limits.js";
import { createRequestLogVerbs } from "./request-logs.js";
import { createResponseVerbs } from "./responses.js";
import { createSessionVerbs } from "./sessions.js";
import { createSettingVerbs } from "./settings.js";
import { createMarkerPurge, createSettlementVerbs } from "./settlements.js";
import { createUpstreamVerbs } from "./upstreams.js";
import { createUsageVerbs } from "./usage.js";

export interface DeliveryBounds {
  /** Maximum number of open deliveries of an account (WH-52). */
  readonly openDeliveriesMax: number;
  /** Maximum number of events of an account whose deliveries are not created yet (E-30). */
  readonly waitingEventsMax: number;
  /** Maximum number of delivered deliveries that keep their payload (WH-50). */
  readonly deliveredKeptMax: number;
}

export const deliveryBounds: DeliveryBounds = { openDeliveriesMax, waitingEventsMax, deliveredKeptMax };

/** All verbs of the store. */
export function createVerbs(db: SqliteDatabase, bounds: DeliveryBounds = deliveryBounds) {
  const collected = new CollectedRows();
  const queues = createQueueRows(db, collected);
  const health = createEndpointHealth(db, collected);
  const usage = createUsageVerbs(db, collected);
  const fanOut = createFanOut(db, { ...bounds, collected, queues });
  const settlements = createSettlementVerbs(db, { collected, usage, beginEvents: fanOut.beginEvents });
  const keys = createKeyVerbs(db);
  const sessions = createSessionVerbs(db);
  const settings = createSettingVerbs(db);
  const audit = createAuditVerbs(db);
  const limits = createLimitVerbs(db);
  const upstreams = createUpstreamVerbs(db);
  const requestLogs = createRequestLogVerbs(db);
  const responses = createResponseVerbs(db);
  const endpoints = createEndpointVerbs(db, queues, health);
  const claims = createClaimVerbs(db, { queues, health, fanOut });
  const retries = createRetryVerbs(db, queues);
  const lists = createListVerbs(db);
  const backups = createBackupVerbs(db);
  const rewriteOne = db.prepare("UPDATE migrations SET number = number WHERE number = 1");
  const anyRow = db.prepare("SELECT number FROM migrations LIMIT 1");
  return {
    collected,
    addUsage: usage.add,
    reads: {
      ...keys.reads,
      ...sessions.reads,
      ...settings.reads,
      ...audit.reads,
      ...limits.reads,
      ...upstreams.reads,
      ...requestLogs.reads,
      ...responses.reads,
      ...endpoints.reads,
      ...lists.reads,
      ...fanOut.reads,
      ...usage.reads,
      ...settlements.reads,
      ping: () => anyRow.get() !== undefined,
      ...backups.reads,
    },
    writes: {
      ...keys.writes,
      ...sessions.writes,
      ...settings.writes,
      ...audit.writes,
      ...limits.writes,
      ...upstreams.writes,
      ...requestLogs.writes,
      ...responses.writes,
      ...endpoints.writes,
      ...fanOut.writes,
      ...claims.writes,
      ...retries.writes,
      ...settlements.writes,
      /** Tests whether the database can be written: rewrites a row without a change, and fails if that is impossible. */
      probe: () => void rewriteOne.run(),
      reschedule: createReschedule(db),
      repairTimes: createTimeRepair(db),
      purge: createPurge(db, { queues, fanOut, deliveredMax: bounds.deliveredKeptMax }),
    },
  };
}

export type StoreVerbs = ReturnType<typeof createVerbs>;

const dayMs = 86_400_000;
/** Length of the longest period, a month of 31 days. */
const longestPeriodMs = 31 * dayMs;

/** Statements that delete the oldest rows from before `?1`, at most `?2`, and how long the rows are kept. */
const retention: readonly { readonly sql: string; readonly keptMs: number }[] = [
  { sql: oldest("usage_hours", "start_ms", "account, start_ms, key_id, model, operation"), keptMs: 90 * dayMs },
  { sql: oldest("usage_days", "start_ms", "account, start_ms, key_id, model, operation"), keptMs: 731 * dayMs },
  {
    sql: oldest("period_sums", "start_ms", "account, scope_kind, scope_id, period_kind, start_ms"),
    keptMs: 60 * dayMs + longestPeriodMs,
  },
  { sql: oldest("crossings", "period_end_ms", "mark"), keptMs: 60 * dayMs },
  { sql: oldest("audit", "at_ms", "id"), keptMs: 400 * dayMs },
  { sql: oldest("sessions", "expires_at_ms", "id"), keptMs: 0 },
];

function oldest(table: string, time: string, key: string): string {
  return `DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE ${time} < ?1 ORDER BY ${time} LIMIT ?2)`;
}

/** Ended deliveries of state `?1` from before `?2`, the oldest first, at most `?3`. */
function endedDeliveries(isPurged: 0 | 1): string {
  return `number IN (SELECT number FROM deliveries INDEXED BY deliveries_ended
    WHERE state = ?1 AND is_purged = ${isPurged} AND ended_at_ms IS NOT NULL AND ended_at_ms <= ?2
    ORDER BY ended_at_ms, number LIMIT ?3)`;
}

/** Number of records between two checks of the elapsed time; at least the 200 that State.purge passes. */
const chunkMax = 1_000;

interface PurgeDeps {
  readonly queues: QueueRows;
  readonly fanOut: Pick<FanOut, "removeUnused">;
  readonly deliveredMax: number;
}

/**
 * Returns the verb that deletes expired records (USE-15, KEY-23, WH-50), kind by kind, at most `max`, and returns their
 * number. It stops after `budgetMs`, and the next call continues with the following kind. The payload and the attempts of
 * an ended delivery are removed first, and its record after twice that time. Of the delivered deliveries only the newest
 * `deliveredMax` keep their payload.
 */
function createPurge(db: SqliteDatabase, { queues, fanOut, deliveredMax }: PurgeDeps) {
  const stripOldest = db.prepare(
    `UPDATE deliveries SET body = '', attempts_json = '[]', is_purged = 1 WHERE ${endedDeliveries(0)}
     RETURNING event_number`,
  );
  const remove = db.prepare(`DELETE FROM deliveries WHERE ${endedDeliveries(1)}`);
  const countDelivered = db.prepare(
    `SELECT count(*) AS kept FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_ended
       WHERE state = 'delivered' AND is_purged = 0 AND ended_at_ms IS NOT NULL LIMIT ?)`,
  );
  /**
   * Removes payloads of deliveries, and the body of an event together with the last of its deliveries. Returns the number
   * of deliveries.
   */
  const strip = (state: string, untilMs: number, max: number): number => {
    const rows = stripOldest.all(state, untilMs, max);
    const events = rows.flatMap((row) => integerOrNull(row, "event_number") ?? []);
    fanOut.removeUnused([...new Set(events)]);
    return rows.length;
  };
  const ended = ([state, keptMs]: readonly [state: string, keptMs: number]): Removal[] => [
    (max, nowMs) => strip(state, nowMs - keptMs, max),
    (max, nowMs) => Number(remove.run(state, nowMs - 2 * keptMs, max).changes),
  ];
  const removals: readonly Removal[] = [
    createMarkerPurge(db),
    ...retention.map(({ sql, keptMs }): Removal => {
      const statement = db.prepare(sql);
      return (max, nowMs) => Number(statement.run(nowMs - keptMs, max).changes);
    }),
    ...ended(["delivered", deliveredKeptMs]),
    ...ended(["permanently_failed", failedKeptMs]),
    (max, nowMs) => {
      const row = countDelivered.get(deliveredMax + max);
      const surplus = row === undefined ? 0 : Math.max(0, integer(row, "kept") - deliveredMax);
      return strip("delivered", nowMs, surplus);
    },
  ];
  let first = 0;
  return (max: number, nowMs: number, budgetMs = Number.POSITIVE_INFINITY): number => {
    const endMs = performance.now() + budgetMs;
    queues.writeNoted();
    let purged = 0;
    for (let done = 0; done < removals.length; ) {
      const limit = Math.min(max - purged, chunkMax);
      const removed = removals[first]?.(limit, nowMs) ?? 0;
      purged += removed;
      if (removed < limit) done += 1;
      if (removed < limit || performance.now() >= endMs) first = (first + 1) % removals.length;
      if (purged >= max || (removed === limit && performance.now() >= endMs)) break;
    }
    queues.removeEmpty();
    return purged;
  };
}

/** Deletes or strips at most `max` records that have expired at `nowMs`, and returns their number. */
type Removal = (max: number, nowMs: number) => number;
