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
} from "../../domain/events/threshold.js";
import type { Settled, Settlement } from "../../domain/metering/ledger.js";
import { type SqliteDatabase, text } from "./database/sqlite.js";
import type { DeliveryMaking } from "./deliveries/making.js";
import type { LiveRows } from "./live-requests.js";
import type { UsageRows } from "./usage.js";

/** What of a settlement is written: all that goes to the worker, because each field costs time on its way. */
export type SettledFacts = Pick<
  Settlement,
  | "requestId"
  | "account"
  | "keyId"
  | "model"
  | "promptTokens"
  | "completionTokens"
  | "cachedTokens"
  | "costNano"
  | "event"
  | "thresholds"
>;

/** A settlement that only adds usage: it has no event and no threshold. In this order it goes to the worker. */
export type SettledUsage = readonly [
  requestId: string,
  account: string,
  keyId: string | null,
  model: string,
  promptTokens: number,
  completionTokens: number,
  cachedTokens: number,
  costNano: number,
  nowMs: number,
  endedAtMs: number,
];

/** What a settlement needs beside its own facts. */
export interface SettleTimes {
  /** Now, by the store's time. */
  readonly nowMs: number;
  /** When the request ended: what decides its hour, day and month. */
  readonly endedAtMs: number;
}

/** One of the sums that a settlement has moved. */
export interface MovedSum {
  readonly kind: "account" | "key";
  readonly period: Period;
  readonly sums: UsageSums;
}

/** `sums` only where they were asked for. `hasDue`: deliveries were made. */
export type SettledRow = Settled & { readonly sums: readonly MovedSum[]; readonly hasDue: boolean };

export interface SettlementParts {
  readonly live: LiveRows;
  readonly usage: UsageRows;
  readonly deliveries: DeliveryMaking;
}

/**
 * The end of a request as one step in the file (USE-2): marker, live row, usage, thresholds, deliveries. The answer of
 * nearly all, once, with nothing crossed and nobody to tell, is null, so that it costs little on its way between the
 * threads.
 */
export function createSettlementRows(db: SqliteDatabase, { live, usage, deliveries }: SettlementParts) {
  const mark = db.prepare("INSERT INTO settled (request_id, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const known = db.prepare(
    "SELECT count(*) AS known FROM settled WHERE request_id IN (SELECT value FROM json_each(?))",
  );
  const markAll = db.prepare("INSERT INTO settled (request_id, at_ms) SELECT value, ? FROM json_each(?)");
  const newest = db.prepare("SELECT max(at_ms) AS at_ms FROM settled");
  const among = db.prepare("SELECT request_id FROM settled WHERE request_id IN (SELECT value FROM json_each(?))");
  const cross = db.prepare("INSERT INTO crossings (mark, period_end_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");

  /** How many values of the threshold the sums have reached for the first time in the period, and deliveries that tell it. */
  const tellCrossed = (threshold: Threshold, { nowMs, endedAtMs }: SettleTimes) => {
    const period = periodAt(threshold.period, endedAtMs);
    const sum = sumOf(threshold.metric, usage.used(threshold.account, usageScopeOf(threshold), period));
    let crossed = 0;
    let due = 0;
    for (const value of valuesOf(threshold)) {
      if (sum < value.value) break;
      if (Number(cross.run(crossingMark(threshold, value, period), period.endMs).changes) === 0) continue;
      const { id, type, prefix, suffix } = thresholdEvent(threshold, value, period, nowMs);
      due += deliveries.emit(threshold.account, { id, type, body: `${prefix}${sum}${suffix}` }, nowMs);
      crossed += 1;
    }
    return { crossed, due };
  };

  /** Marks requests as settled. Returns the positions of those that were. */
  const markEach = (rows: readonly SettledUsage[]): readonly number[] => {
    const ids = JSON.stringify(rows.map(([requestId]) => requestId));
    const isNew = new Set(rows.map(([requestId]) => requestId)).size === rows.length;
    if (isNew && Number(known.get(ids)?.["known"]) === 0) {
      markAll.run(Math.max(...rows.map(([, , , , , , , , nowMs]) => nowMs)), ids);
      return [];
    }
    return rows.flatMap(([requestId, , , , , , , , nowMs], position) =>
      Number(mark.run(requestId, nowMs).changes) === 0 ? [position] : [],
    );
  };

  return {
    /** `json`: a list of SettledUsage. Returns the positions of those that were settled before. */
    settleAll(json: string): readonly number[] {
      const rows = JSON.parse(json) as readonly SettledUsage[];
      const duplicates = markEach(rows);
      rows.forEach((row, position) => {
        const [requestId, account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano, , atMs] = row;
        live.remove(requestId);
        if (duplicates.includes(position)) return;
        usage.add({ account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano }, atMs);
      });
      return duplicates;
    },
    /** The latest instant of a settlement; 0 before the first. */
    newestAtMs: (): number => Number(newest.get()?.["at_ms"] ?? 0),
    /** Ids of those that are settled. */
    settledAmong(requests: readonly { readonly requestId: string }[]): readonly string[] {
      return among
        .all(JSON.stringify(requests.map(({ requestId }) => requestId)))
        .map((row) => text(row, "request_id"));
    },
    settle(settlement: SettledFacts, times: SettleTimes, wantsSums: boolean): SettledRow | null {
      const { requestId, account, keyId, event, thresholds } = settlement;
      const { nowMs, endedAtMs } = times;
      live.remove(requestId);
      if (Number(mark.run(requestId, nowMs).changes) === 0) return duplicate;
      usage.add(settlement, endedAtMs);
      let due = event === null ? 0 : deliveries.emit(account, event, nowMs);
      const crossed: string[] = [];
      for (const threshold of thresholds) {
        const told = tellCrossed(threshold, times);
        crossed.push(...Array.from({ length: told.crossed }, () => threshold.id));
        due += told.due;
      }
      if (crossed.length === 0 && due === 0 && !wantsSums) return null;
      const sums = wantsSums ? sumsOf(usage, account, keyId, endedAtMs) : [];
      return { duplicate: false, crossed, sums, hasDue: due > 0 };
    },
  };
}

const duplicate: SettledRow = Object.freeze({ duplicate: true, crossed: [], sums: [], hasDue: false });

function sumsOf(usage: UsageRows, account: string, keyId: string | null, atMs: number): MovedSum[] {
  return [periodAt("day", atMs), periodAt("month", atMs)].flatMap((period): MovedSum[] => {
    const ofAccount = usage.used(account, { kind: "account", id: account }, period);
    const moved: MovedSum[] = [{ kind: "account", period, sums: ofAccount }];
    if (keyId !== null)
      moved.push({ kind: "key", period, sums: usage.used(account, { kind: "key", id: keyId }, period) });
    return moved;
  });
}
