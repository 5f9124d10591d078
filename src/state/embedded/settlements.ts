import type { Progress } from "../../domain/call/live-requests.js";
import {
  crossingMark,
  type Period,
  periodAt,
  sumOf,
  type Threshold,
  thresholdEvent,
  type UsageSums,
  usageScopeOf,
  valuesOf,
} from "../../domain/events/events.js";
import type { LostRequest, Settled, Settlement } from "../../domain/metering/ledger.js";
import {
  type CollectedRows,
  columnsOf,
  type SqliteDatabase,
  sqliteCode,
  sqliteCodes,
  text,
} from "./database/sqlite.js";
import type { SettledUsage } from "./database/worker-link.js";
import type { createEmitting } from "./deliveries/endpoints.js";
import type { UsageDelta, UsageVerbs } from "./usage.js";

/** The fields of a settlement that are written; each costs time between the threads. */
type SettledFacts = UsageDelta & Pick<Settlement, "requestId" | "event" | "thresholds">;

/** A sum that a settlement has changed, with its new value. */
export interface MovedSum {
  readonly kind: "account" | "key";
  readonly period: Period;
  readonly sums: UsageSums;
}

export interface SettledRow extends Settled {
  /** Empty unless requested. */
  readonly sums: readonly MovedSum[];
  /** Deliveries were created. */
  readonly hasDue: boolean;
}

const duplicate: SettledRow = Object.freeze({ duplicate: true, crossed: [], sums: [], hasDue: false });
const liveColumns = columnsOf<LostRequest>(
  "request_id, account, key_id, model, operation, prompt_tokens, completion_tokens, admitted_at_ms",
);

/** Request ids begin with their time: the newest marker is among the last ones. */
const newestMarkerSql = `SELECT max(at_ms) AS at_ms
  FROM (SELECT at_ms FROM settled ORDER BY request_id DESC LIMIT 1000)`;

/** How long the marker of a settled request is kept. */
const markerKeptMs = 86_400_000;

/**
 * Returns a function that deletes the oldest expired markers of settled requests, at most `max`, and returns their number.
 * It looks at both ends of the table: ids of version 0.1 are random and come after those that begin with a time. The newest
 * marker stays, because the store's time continues from it after a restart.
 */
export function createMarkerPurge(db: SqliteDatabase): (max: number, nowMs: number) => number {
  const newest = db.prepare(newestMarkerSql);
  const removals = ["ASC", "DESC"].map((order) =>
    db.prepare(
      `DELETE FROM settled WHERE request_id IN (SELECT request_id
         FROM (SELECT request_id, at_ms FROM settled ORDER BY request_id ${order} LIMIT ?2) WHERE at_ms < ?1)`,
    ),
  );
  return (max, nowMs) => {
    const beforeMs = Math.min(nowMs - markerKeptMs, Number(newest.get()?.["at_ms"] ?? 0));
    return removals.reduce((purged, remove) => purged + Number(remove.run(beforeMs, max - purged).changes), 0);
  };
}

interface SettlementDeps {
  readonly collected: CollectedRows;
  readonly usage: UsageVerbs;
  readonly emit: ReturnType<typeof createEmitting>;
}

/** Rows of running requests, from which the next process accounts for those that a crash interrupted, and settlements. */
export function createSettlementVerbs(db: SqliteDatabase, { collected, usage, emit }: SettlementDeps) {
  const insertLive = db.prepare(
    `INSERT INTO live_requests (${liveColumns.names}) VALUES (${liveColumns.placeholders}) ON CONFLICT DO NOTHING`,
  );
  const setProgress = db.prepare(
    "UPDATE live_requests SET prompt_tokens = ?, completion_tokens = ? WHERE request_id = ?",
  );
  const removeLive = db.prepare("DELETE FROM live_requests WHERE request_id IN (SELECT value FROM json_each(?))");
  const live = db.prepare("SELECT * FROM live_requests ORDER BY admitted_at_ms");
  const mark = db.prepare("INSERT INTO settled (request_id, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const markAll = db.prepare("INSERT INTO settled (request_id, at_ms) SELECT value, ? FROM json_each(?)");
  const newest = db.prepare(newestMarkerSql);
  const among = db.prepare("SELECT request_id FROM settled WHERE request_id IN (SELECT value FROM json_each(?))");
  const cross = db.prepare("INSERT INTO crossings (mark, period_end_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");
  // One statement removes all requests that ended in the transaction, most of which were never written.
  const ended = collected.of<true>((ids) => removeLive.run(JSON.stringify([...ids.keys()])));

  /** Emits an event for each value that the sum reached for the first time in the period. Returns the two counts. */
  const noteCrossed = (threshold: Threshold, nowMs: number, endedAtMs: number) => {
    const period = periodAt(threshold.period, endedAtMs);
    const sum = sumOf(threshold.metric, usage.reads.used(threshold.account, usageScopeOf(threshold), period));
    let crossed = 0;
    let due = 0;
    for (const value of valuesOf(threshold)) {
      if (sum < value.value) break;
      if (Number(cross.run(crossingMark(threshold, value, period), period.endMs).changes) === 0) continue;
      const { id, type, prefix, suffix } = thresholdEvent(threshold, value, period, nowMs);
      due += emit(threshold.account, { id, type, body: `${prefix}${sum}${suffix}` }, nowMs);
      crossed += 1;
    }
    return { crossed, due };
  };
  const sumsOf = (account: string, keyId: string | null, atMs: number): MovedSum[] =>
    [periodAt("day", atMs), periodAt("month", atMs)].flatMap((period): MovedSum[] => {
      const moved = (kind: MovedSum["kind"], id: string): MovedSum => ({
        kind,
        period,
        sums: usage.reads.used(account, { kind, id }, period),
      });
      return keyId === null ? [moved("account", account)] : [moved("account", account), moved("key", keyId)];
    });

  /** Marks requests as settled. Returns the positions of those that were settled before. */
  const markEach = (rows: readonly SettledUsage[]): readonly number[] => {
    const nowMs = Math.max(...rows.map((row) => row[9]));
    try {
      markAll.run(nowMs, JSON.stringify(rows.map(([requestId]) => requestId)));
      return [];
    } catch (error) {
      // One of them is marked already. SQLite has undone this statement alone.
      if (sqliteCode(error) !== sqliteCodes.CONSTRAINT) throw error;
      return rows.flatMap(([id], position) => (Number(mark.run(id, nowMs).changes) === 0 ? [position] : []));
    }
  };

  return {
    reads: {
      liveRequests: (): readonly LostRequest[] => live.all().map(liveColumns.read),
      /** Time of the latest settlement; 0 before the first. */
      newestSettlementAtMs: (): number => Number(newest.get()?.["at_ms"] ?? 0),
      /** Ids of those that are settled. */
      settledAmong: (requestIds: readonly string[]): readonly string[] =>
        among.all(JSON.stringify(requestIds)).map((row) => text(row, "request_id")),
    },
    writes: {
      noteLive(rows: readonly LostRequest[]): void {
        for (const row of rows) insertLive.run(...liveColumns.values(row));
      },
      noteProgress(requests: readonly Progress[]): void {
        for (const { requestId, promptTokens, completionTokens } of requests) {
          setProgress.run(promptTokens, completionTokens, requestId);
        }
      },
      /**
       * Ends a request in one step (USE-2): marker, live row, usage, thresholds, deliveries. `endedAtMs` decides its hour,
       * day and month. The result of nearly all, once, with nothing crossed and no receiver, is null, so that it costs
       * little between the threads.
       */
      settle(settlement: SettledFacts, nowMs: number, endedAtMs: number, wantsSums: boolean): SettledRow | null {
        const { requestId, account, keyId, event, thresholds } = settlement;
        ended.set(requestId, true);
        if (Number(mark.run(requestId, nowMs).changes) === 0) return duplicate;
        usage.add(settlement, endedAtMs);
        let due = event === null ? 0 : emit(account, event, nowMs);
        const crossed: string[] = [];
        for (const threshold of thresholds) {
          const noted = noteCrossed(threshold, nowMs, endedAtMs);
          crossed.push(...Array.from({ length: noted.crossed }, () => threshold.id));
          due += noted.due;
        }
        if (crossed.length === 0 && due === 0 && !wantsSums) return null;
        const sums = wantsSums ? sumsOf(account, keyId, endedAtMs) : [];
        return { duplicate: false, crossed, sums, hasDue: due > 0 };
      },
      /** `json`: a list of SettledUsage. Returns the positions of those that were settled before. */
      settleAll(json: string): readonly number[] {
        const rows = JSON.parse(json) as readonly SettledUsage[];
        const duplicates = markEach(rows);
        rows.forEach((row, position) => {
          const [requestId, account, keyId, model, operation] = row;
          const [, , , , , promptTokens, completionTokens, cachedTokens, costNano, , atMs, hasRow] = row;
          if (hasRow) ended.set(requestId, true);
          if (duplicates.includes(position)) return;
          const amounts = { promptTokens, completionTokens, cachedTokens, costNano };
          usage.add({ account, keyId, model, operation, ...amounts }, atMs);
        });
        return duplicates;
      },
    },
  };
}

export type SettlementVerbs = ReturnType<typeof createSettlementVerbs>;
