import type { Delivery } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter } from "../../../domain/webhooks/delivery-queue.js";
import { integer, text } from "../sql-row.js";
import type { SqliteDatabase, SqlValue } from "../sqlite-binding.js";
import type { FirstCreatedAt } from "./creation-order.js";
import { deliveryColumns, toDelivery } from "./delivery-row.js";
import { type ListPath, listPaths, pathFor } from "./list-paths.js";

/** Deliveries that one step looks at: a millisecond or two, where their pages are read from the disk some more. */
const lookedAtMax = 500;

export interface ListStep {
  readonly found: readonly { readonly number: number; readonly delivery: Delivery }[];
  /** Below this number others may follow; null: there are none. */
  readonly below: number | null;
}

/** Reads deliveries: one, or a step through many. A filter that matches little takes many steps, none of them long. */
export function createListing(db: SqliteDatabase, firstCreatedAt: FirstCreatedAt) {
  const find = db.prepare(`SELECT ${deliveryColumns("?2")} FROM deliveries WHERE id = ?1`);
  const payload = db.prepare("SELECT body FROM deliveries WHERE id = ? AND is_purged = 0");
  const stepsOf = (path: ListPath) => ({
    look: db.prepare(
      `SELECT min(number) AS lowest, count(*) AS looked_at FROM (
         SELECT ${path.number} AS number FROM ${path.source} WHERE ${path.condition}
           AND ${path.number} < ?2 AND ${path.number} >= ?3 ORDER BY ${path.number} DESC LIMIT ${lookedAtMax})`,
    ),
    read: db.prepare(
      `SELECT * FROM (SELECT ${deliveryColumns("?9")} FROM deliveries WHERE number IN (
         SELECT ${path.number} FROM ${path.source} WHERE ${path.condition}
           AND ${path.number} < ?2 AND ${path.number} >= ?3))
       WHERE (?4 IS NULL OR account = ?4) AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR endpoint_id = ?6)
         AND (?7 IS NULL OR event_type = ?7) AND (?8 IS NULL OR replay_id = ?8)
       ORDER BY number DESC LIMIT ?10`,
    ),
  });
  const steps = new Map(Object.values(listPaths).map((path) => [path, stepsOf(path)] as const));
  return {
    find(id: string, nowMs: number): Delivery | null {
      const row = find.get(id, nowMs);
      return row === undefined ? null : toDelivery(row);
    },
    payload(id: string): string | null {
      const row = payload.get(id);
      return row === undefined ? null : text(row, "body");
    },
    /** The newest first, from below the number on (null: from the newest on): at most `max` of the next 500. */
    step(filter: DeliveryFilter, below: number | null, max: number, nowMs: number): ListStep {
      const { path, key } = pathFor(filter, nowMs);
      const { look, read } = steps.get(path) ?? stepsOf(path);
      const end = filter.toMs === null ? Number.MAX_SAFE_INTEGER : firstCreatedAt(filter.toMs);
      const top = Math.min(end, below ?? Number.MAX_SAFE_INTEGER);
      const bottom = filter.fromMs === null ? 0 : firstCreatedAt(filter.fromMs);
      const looked = look.get(key, top, bottom);
      if (looked === undefined || integer(looked, "looked_at") === 0) return { found: [], below: null };
      const lowest = integer(looked, "lowest");
      const { account, state, endpointId, eventType, replayId } = filter;
      const wanted: SqlValue[] = [account, state, endpointId, eventType, replayId];
      const found = read
        .all(key, top, lowest, ...wanted, nowMs, max)
        .map((row) => ({ number: integer(row, "number"), delivery: toDelivery(row) }));
      const last = found.length === max ? found.at(-1)?.number : undefined;
      const isWhole = integer(looked, "looked_at") < lookedAtMax;
      return { found, below: last ?? (isWhole ? null : lowest) };
    },
  };
}
