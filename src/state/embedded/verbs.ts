import { createAuditRows } from "./audit.js";
import { type SqliteDatabase, sqliteCode, storageFault } from "./database/sqlite.js";
import { backUpTo } from "./database/state-file.js";
import {
  createDeliveryRows,
  type DeliveryBounds,
  type DeliveryPurging,
  deliveryBounds,
} from "./deliveries/delivery-rows.js";
import { createEndpointRows } from "./endpoints.js";
import { createKeyRows } from "./keys.js";
import { createLimitRows, createThresholdRows } from "./limits.js";
import { createLiveRows } from "./live-requests.js";
import { createSessionRows } from "./sessions.js";
import { createCatalogRows, createSettingRows } from "./settings.js";
import { createSettlementRows } from "./settlements.js";
import { createUsageRows } from "./usage.js";

/** All verbs of the worker: synchronous functions on the database, each one atomic step. */
export function createVerbs(db: SqliteDatabase, bounds: DeliveryBounds = deliveryBounds) {
  const keys = createKeyRows(db);
  const sessions = createSessionRows(db);
  const settings = createSettingRows(db);
  const audit = createAuditRows(db);
  const limits = createLimitRows(db);
  const thresholds = createThresholdRows(db);
  const deliveries = createDeliveryRows(db, bounds);
  const endpoints = createEndpointRows(db, deliveries.queues, deliveries.health);
  const usage = createUsageRows(db);
  const live = createLiveRows(db);
  const settlements = createSettlementRows(db, { live, usage, deliveries });
  const rewriteOne = db.prepare("UPDATE migrations SET number = number WHERE number = 1");
  const anyRow = db.prepare("SELECT number FROM migrations LIMIT 1");
  return {
    /** Run after the commit, outside of any transaction. */
    reads: {
      ping: () => anyRow.get() !== undefined,
      newestSettlementAtMs: settlements.newestAtMs,
      liveRequests: live.all,
      settledAmong: settlements.settledAmong,
      endpointCounts: endpoints.counts,
      findKey: keys.find,
      findKeyByHash: keys.findByHash,
      listKeys: keys.list,
      findSession: sessions.findByHash,
      listSessions: sessions.list,
      getSetting: settings.get,
      listAudit: audit.list,
      listLimits: limits.list,
      listThresholds: thresholds.list,
      listEndpoints: endpoints.list,
      findEndpoint: endpoints.find,
      findDelivery: deliveries.find,
      deliveryPayload: deliveries.payload,
      listDeliveries: deliveries.step,
      deliveryBacklog: deliveries.backlog,
      countDueDeliveries: deliveries.countDue,
      usageRows: usage.rows,
      usageSlice: usage.slice,
      accounts: usage.accounts,
      used: usage.used,
      backUp: (file: string) => backUpTo(db, file),
    },
    writes: {
      /** Changes nothing, and fails where nothing can be written. */
      probe: () => {
        rewriteOne.run();
      },
      insertKey: keys.insert,
      insertFirstKey: keys.insertFirst,
      revokeKey: keys.revoke,
      updateKey: keys.update,
      rotateKey: keys.rotate,
      touchKey: keys.touch,
      firstSeen: createCatalogRows(db).firstSeen,
      insertSession: sessions.insert,
      touchSession: sessions.touch,
      removeSession: sessions.remove,
      removeOtherSessions: sessions.removeOthers,
      putSetting: settings.put,
      removeSetting: settings.remove,
      appendAudit: audit.append,
      putLimits: limits.put,
      removeLimits: limits.remove,
      insertThreshold: thresholds.insert,
      replaceThreshold: thresholds.replace,
      removeThreshold: thresholds.remove,
      insertEndpoint: endpoints.insert,
      replaceEndpoint: endpoints.replace,
      removeEndpoint: endpoints.remove,
      claimDeliveries: deliveries.claim,
      handBackDeliveries: deliveries.handBack,
      finishDelivery: deliveries.finish,
      retryDelivery: deliveries.retryNow,
      replayDeliveries: deliveries.replay,
      noteLive: live.insert,
      noteProgress: live.progress,
      settle: settlements.settle,
      settleAll: settlements.settleAll,
      purge: createPurgeRows(db, deliveries).purge,
    },
    /** What writes have put off to the end of their transaction: to be written before the commit, or forgotten without. */
    deferred: {
      addUsage: usage.add,
      write(): void {
        usage.writeAdded();
        live.writeRemoved();
        deliveries.queues.writeNoted();
        deliveries.health.writeChanged();
      },
      forget(): void {
        usage.forgetAdded();
        live.forgetRemoved();
        deliveries.queues.forgetNoted();
        deliveries.health.forgetChanged();
      },
    },
  };
}

export type Verbs = ReturnType<typeof createVerbs>;
export type Reads = Verbs["reads"];
export type Writes = Verbs["writes"];

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

/** Deletes rows whose retention is over (USE-15, KEY-23, WH-50), the oldest first and table by table. */
function createPurgeRows(db: SqliteDatabase, deliveries: DeliveryPurging) {
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

export interface Request {
  readonly verb: keyof Reads | keyof Writes;
  readonly values: readonly unknown[];
}

/** The result of a request, in a form that can cross threads. `sqlite` is the primary result code, null for other faults. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly sqlite: number | null };

/** The outcomes in the order of the requests. */
export type RunBatch = (requests: readonly Request[], isSynced: boolean) => readonly Outcome[];

type Verb = (...values: readonly unknown[]) => unknown;

/**
 * Group commit: all waiting writes become one transaction with one sync. When one of them fails, all are rolled back and
 * run again, each in a savepoint of its own, so that it does not affect the others. Reads run after the commit: they never
 * see what could still be lost, and they work when nothing can be written.
 */
export function createRunBatch(db: SqliteDatabase, verbs: Verbs): RunBatch {
  const reads = new Map(Object.entries(verbs.reads) as [string, Verb][]);
  const writes = new Map(Object.entries(verbs.writes) as [string, Verb][]);

  const write = ({ verb, values }: Request): Outcome => ({ ok: true, value: writes.get(verb)?.(...values) });

  const writeApart = (request: Request): Outcome => {
    db.exec("SAVEPOINT write");
    try {
      const outcome = write(request);
      verbs.deferred.write();
      db.exec("RELEASE write");
      return outcome;
    } catch (error) {
      verbs.deferred.forget();
      if (storageFault(sqliteCode(error)) !== null) throw error;
      db.exec("ROLLBACK TO write; RELEASE write");
      return failure(error);
    }
  };

  let wasSynced = true;
  /** With NORMAL a commit is not synced, but the next one with FULL syncs all that was written before it. */
  const setSynced = (isSynced: boolean): void => {
    if (isSynced === wasSynced) return;
    db.exec(`PRAGMA synchronous = ${isSynced ? "FULL" : "NORMAL"}`);
    wasSynced = isSynced;
  };

  const writeAll = (batch: readonly Request[], isSynced: boolean): readonly Outcome[] => {
    if (batch.length === 0) return [];
    let fault: unknown;
    for (const writeOne of [write, writeApart]) {
      try {
        setSynced(isSynced);
        db.exec("BEGIN IMMEDIATE");
        const outcomes = batch.map(writeOne);
        verbs.deferred.write();
        db.exec("COMMIT");
        return outcomes;
      } catch (error) {
        fault = error;
        verbs.deferred.forget();
        rollBack(db);
        if (storageFault(sqliteCode(error)) !== null) break;
      }
    }
    return batch.map(() => failure(fault));
  };

  const read = ({ verb, values }: Request): Outcome => {
    try {
      return { ok: true, value: reads.get(verb)?.(...values) };
    } catch (error) {
      return failure(error);
    }
  };

  return (requests, isSynced) => {
    const writing = requests.filter(({ verb }) => writes.has(verb));
    const outcomes = writeAll(writing, isSynced);
    const written = new Map(writing.map((request, position) => [request, outcomes[position]]));
    return requests.map((request) => written.get(request) ?? read(request));
  };
}

/** After some faults SQLite has rolled back by itself, and says that there is no transaction; anything else is a fault. */
export function rollBack(db: SqliteDatabase): void {
  try {
    db.exec("ROLLBACK");
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("no transaction is active"))) throw error;
  }
}

function failure(error: unknown): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  return { ok: false, message, sqlite: sqliteCode(error) };
}
