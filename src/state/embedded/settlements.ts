import type { Progress } from "../../domain/call/live-requests.js";
import { periodAt } from "../../domain/events/events.js";
import type { LostRequest } from "../../domain/metering/ledger.js";
import type { MovedSum, SettledBatch, SettlementBatch, SettlementRow } from "./database/settlement-row.js";
import {
  type CollectedRows,
  columnsOf,
  type SqliteDatabase,
  sqliteCode,
  sqliteCodes,
  text,
} from "./database/sqlite.js";
import type { Emit, FanOut } from "./deliveries/fan-out.js";
import { createThresholdChecks } from "./threshold-checks.js";
import type { UsageVerbs } from "./usage.js";

const liveColumns = columnsOf<LostRequest>(
  "request_id, account, key_id, model, operation, prompt_tokens, completion_tokens, admitted_at_ms",
);

const noEffects = [null, -1, false] as const;

/** Request ids begin with a time, so the newest marker is among the last rows by id. */
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
  readonly beginEvents: FanOut["beginEvents"];
}

/** Settlements, and rows of running requests, with which the next process accounts for requests that a crash interrupted. */
export function createSettlementVerbs(db: SqliteDatabase, { collected, usage, beginEvents }: SettlementDeps) {
  const insertLive = db.prepare(
    `INSERT INTO live_requests (${liveColumns.names}) VALUES (${liveColumns.placeholders}) ON CONFLICT DO NOTHING`,
  );
  const setProgress = db.prepare(
    "UPDATE live_requests SET prompt_tokens = ?, completion_tokens = ? WHERE request_id = ?",
  );
  const removeLive = db.prepare("DELETE FROM live_requests WHERE request_id IN (SELECT value FROM json_each(?))");
  const live = db.prepare("SELECT * FROM live_requests ORDER BY admitted_at_ms");
  const beginChecks = createThresholdChecks(db, usage);
  const mark = db.prepare("INSERT INTO settled (request_id, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const markAll = db.prepare("INSERT INTO settled (request_id, at_ms) SELECT value, ? FROM json_each(?)");
  const newest = db.prepare(newestMarkerSql);
  const among = db.prepare("SELECT request_id FROM settled WHERE request_id IN (SELECT value FROM json_each(?))");
  // One statement removes the rows of all requests that ended in the transaction. Most of these have no row.
  const ended = collected.of<true>((ids) => removeLive.run(JSON.stringify([...ids.keys()])));

  /** Sums of the accounts and keys of these rows, without duplicates. */
  const sumsOf = (rows: readonly SettlementRow[]): MovedSum[] => {
    const moved = new Map<string, MovedSum>();
    for (const [, account, keyId, , , , , , , , endedAtMs] of rows) {
      for (const period of [periodAt("day", endedAtMs), periodAt("month", endedAtMs)]) {
        for (const [kind, id] of [
          ["account", account],
          ["key", keyId],
        ] as const) {
          const name = `${account}\n${kind}\n${id}\n${period.kind}\n${period.startMs}`;
          if (id === null || moved.has(name)) continue;
          moved.set(name, { kind, id, period, sums: usage.reads.used(account, { kind, id }, period) });
        }
      }
    }
    return [...moved.values()];
  };

  /** Marks requests as settled. Returns the positions of requests that were settled before. */
  const markEach = (rows: readonly SettlementRow[]): readonly number[] => {
    const nowMs = Math.max(...rows.map((row) => row[9]));
    try {
      markAll.run(nowMs, JSON.stringify(rows.map(([requestId]) => requestId)));
      return [];
    } catch (error) {
      // One of the requests is marked already. SQLite has rolled back only this statement.
      if (sqliteCode(error) !== sqliteCodes.CONSTRAINT) throw error;
      return rows.flatMap(([id], position) => (Number(mark.run(id, nowMs).changes) === 0 ? [position] : []));
    }
  };

  return {
    reads: {
      liveRequests: (): readonly LostRequest[] => live.all().map(liveColumns.read),
      /** Time of the latest settlement; 0 before the first. */
      newestSettlementAtMs: (): number => Number(newest.get()?.["at_ms"] ?? 0),
      /** Returns those of the given ids whose requests are settled. */
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
       * Ends requests in one step (USE-2): markers, live rows, usage, events, thresholds. `json`: a SettlementBatch.
       * Each threshold is compared in memory, and with the database only when it has been reached (E-31).
       */
      settleAll(json: string): SettledBatch {
        const { rows, thresholds } = JSON.parse(json) as SettlementBatch;
        const duplicates = markEach(rows);
        let begun: Emit | null = null;
        // Most batches have no event.
        const emit: Emit = (account, event, nowMs) => {
          begun ??= beginEvents();
          return begun(account, event, nowMs);
        };
        const checks = thresholds.length === 0 ? null : beginChecks(thresholds, emit);
        const crossed: (readonly [number, readonly string[]])[] = [];
        const summed: SettlementRow[] = [];
        let hasDue = false;
        rows.forEach((row, position) => {
          const [requestId, account, keyId, model, operation] = row;
          const [, , , , , promptTokens, completionTokens, cachedTokens, costNano, nowMs, atMs, hasRow, effects] = row;
          if (hasRow) ended.set(requestId, true);
          if (duplicates.includes(position)) return;
          const delta = { account, keyId, model, operation, promptTokens, completionTokens, cachedTokens, costNano };
          const [event, list, wantsSums] = effects ?? noEffects;
          // Called before the usage of the settlement is added, because the sums are read here when the batch first needs
          // them.
          const watched = checks === null || list < 0 ? null : checks.watched(list, delta, atMs);
          usage.add(delta, atMs);
          checks?.add(delta, atMs);
          if (event !== null && emit(account, event, nowMs)) hasDue = true;
          if (wantsSums) summed.push(row);
          if (checks === null || watched === null) return;
          const reached = checks.reached(watched, nowMs);
          if (reached.ids.length > 0) crossed.push([position, reached.ids]);
          if (reached.hasDue) hasDue = true;
        });
        return { duplicates, crossed, sums: sumsOf(summed), hasDue };
      },
    },
  };
}

export type SettlementVerbs = ReturnType<typeof createSettlementVerbs>;
