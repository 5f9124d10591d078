import type { EventType } from "../../../domain/events/event.js";
import type { Delivery, DeliveryState } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter } from "../../../domain/webhooks/delivery-queue.js";
import { integer, type SqliteDatabase, type SqlValue, text } from "../database/sqlite.js";
import { deliveryColumns, type FirstCreatedAt, toDelivery } from "./delivery-row.js";

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

/** A way through deliveries in the order of their numbers, which leaves out many that a filter does not want. */
export interface ListPath {
  readonly source: string;
  /** Column with the delivery's number. */
  readonly number: string;
  /** On the key of the path, which is parameter 1. */
  readonly condition: string;
}

const by = (index: string, condition: string): ListPath => ({
  source: `deliveries INDEXED BY ${index}`,
  number: "number",
  condition,
});

export const listPaths = {
  held: { source: "leases", number: "delivery_number", condition: "ends_at_ms > ?1" },
  replay: by("deliveries_by_replay", "replay_id = ?1"),
  troubled: by("deliveries_troubled", "state IN ('awaiting_retry', 'permanently_failed') AND state = ?1"),
  open: by("deliveries_open", "due_at_ms IS NOT NULL AND ?1 IS NOT NULL"),
  rareType: by(
    "deliveries_of_rare_types",
    "event_type IN ('request.failed', 'usage.threshold_reached') AND event_type = ?1",
  ),
  endpoint: by("deliveries_by_endpoint", "endpoint_id = ?1"),
  account: by("deliveries_by_account", "account = ?1"),
  all: { source: "deliveries", number: "number", condition: "?1 IS NULL" },
} satisfies Record<string, ListPath>;

/** States that few deliveries are in at a time, by how they are found. Delivered ones are most of all. */
const pathOfState: Partial<Record<DeliveryState, ListPath>> = {
  delivery_attempted: listPaths.held,
  awaiting_retry: listPaths.troubled,
  permanently_failed: listPaths.troubled,
  pending: listPaths.open,
};

const mostCommonType: EventType = "request.completed";

/** The narrowest path that leads to everything that the filter wants, and its key. */
export function pathFor(filter: DeliveryFilter, nowMs: number): { readonly path: ListPath; readonly key: SqlValue } {
  const { state, replayId, endpointId, account, eventType } = filter;
  if (replayId !== null) return { path: listPaths.replay, key: replayId };
  const path = state === null ? undefined : pathOfState[state];
  if (path !== undefined) return { path, key: path === listPaths.held ? nowMs : state };
  if (eventType !== null && eventType !== mostCommonType) return { path: listPaths.rareType, key: eventType };
  if (endpointId !== null) return { path: listPaths.endpoint, key: endpointId };
  if (account !== null) return { path: listPaths.account, key: account };
  return { path: listPaths.all, key: null };
}
