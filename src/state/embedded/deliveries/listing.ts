import type { EventType } from "../../../domain/events/events.js";
import type { Delivery, DeliveryState } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter, DeliveryQueue, EndpointBacklog } from "../../../domain/webhooks/delivery-queue.js";
import {
  columnsOf,
  integer,
  integerOrNull,
  type SqliteDatabase,
  type SqlRow,
  type SqlValue,
  text,
} from "../database/sqlite.js";
import type { StoreLink } from "../database/worker-link.js";
import { isFree } from "./claiming.js";
import type { FanOut } from "./fan-out.js";

/**
 * Maximum number of deliveries that one step examines, in one or two milliseconds, or more if their pages are read from the
 * disk.
 */
const examinedMax = 500;
/** Maximum number of steps for one page: 100,000 deliveries in some tens of milliseconds. The next page continues there. */
const stepsMax = 200;
const endpointsMax = 1_000;
/** Maximum number of open deliveries that one step of counting examines, in some milliseconds. */
const countedMax = 20_000;

export interface ListStep {
  readonly found: readonly { readonly number: number; readonly delivery: Delivery }[];
  /** There may be more deliveries below this number; null: there are none. */
  readonly below: number | null;
}

export interface CountStep {
  readonly due: number;
  /** There are more deliveries above this number; null: there are none. */
  readonly after: number | null;
}

/** Reads deliveries. With a filter that matches few deliveries a page takes many steps, each of which is short. */
export function createListVerbs(db: SqliteDatabase) {
  const firstCreatedAt = createFirstCreatedAt(db);
  const find = db.prepare(`SELECT ${deliveryColumns("?2")} FROM deliveries WHERE id = ?1`);
  const payload = db.prepare(
    `SELECT coalesce(events.body, deliveries.body) AS body
     FROM deliveries LEFT JOIN events ON events.number = event_number WHERE deliveries.id = ? AND is_purged = 0`,
  );
  const stepsOf = (path: ListPath) => ({
    examine: db.prepare(
      `SELECT min(number) AS lowest, count(*) AS examined FROM (
         SELECT ${path.number} AS number FROM ${path.source} WHERE ${path.condition}
           AND ${path.number} < ?2 AND ${path.number} >= ?3 ORDER BY ${path.number} DESC LIMIT ${examinedMax})`,
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
  const backlog = db.prepare(
    `SELECT account, endpoint_id, open,
       (SELECT due_at_ms FROM deliveries INDEXED BY deliveries_due
        WHERE endpoint_id = queues.endpoint_id AND due_at_ms <= ?1 AND ${isFree("?1")}
        ORDER BY due_at_ms LIMIT 1) AS oldest_due_at_ms
     FROM queues WHERE open > 0
     ORDER BY oldest_due_at_ms IS NULL, oldest_due_at_ms, account, endpoint_id LIMIT ${endpointsMax}`,
  );
  const count = db.prepare(
    `SELECT count(*) AS examined, max(number) AS last, count(*) FILTER (WHERE due_at_ms <= ?2) AS due FROM (
       SELECT number, due_at_ms FROM deliveries INDEXED BY deliveries_open
       WHERE due_at_ms IS NOT NULL AND number > ?1 ORDER BY number LIMIT ${countedMax})`,
  );
  // Claimed deliveries are subtracted, because they are due too.
  const held = db.prepare(
    "SELECT count(*) AS held FROM leases WHERE delivery_number > ? AND delivery_number <= ? AND ends_at_ms > ?",
  );
  return {
    reads: {
      findDelivery(id: string, nowMs: number): Delivery | null {
        const row = find.get(id, nowMs);
        return row === undefined ? null : toDelivery(row);
      },
      deliveryPayload(id: string): string | null {
        const row = payload.get(id);
        return row === undefined ? null : text(row, "body");
      },
      /** At most `max` of the next 500 deliveries below the number, newest first; null: from the newest. */
      listDeliveries(filter: DeliveryFilter, below: number | null, max: number, nowMs: number): ListStep {
        const { path, key } = pathFor(filter, nowMs);
        const { examine, read } = steps.get(path) ?? stepsOf(path);
        const end = filter.toMs === null ? Number.MAX_SAFE_INTEGER : firstCreatedAt(filter.toMs);
        const top = Math.min(end, below ?? Number.MAX_SAFE_INTEGER);
        const bottom = filter.fromMs === null ? 0 : firstCreatedAt(filter.fromMs);
        const examined = examine.get(key, top, bottom);
        if (examined === undefined || integer(examined, "examined") === 0) return { found: [], below: null };
        const lowest = integer(examined, "lowest");
        const { account, state, endpointId, eventType, replayId } = filter;
        const found = read
          .all(key, top, lowest, account, state, endpointId, eventType, replayId, nowMs, max)
          .map((row) => ({ number: integer(row, "number"), delivery: toDelivery(row) }));
        const last = found.length === max ? found.at(-1)?.number : undefined;
        const isLastStep = integer(examined, "examined") < examinedMax;
        return { found, below: last ?? (isLastStep ? null : lowest) };
      },
      /**
       * Number of unfinished deliveries of each endpoint (WH-51). The numbers are stored with each change, so reading them
       * takes the same time for any number of deliveries.
       */
      deliveryBacklog: (nowMs: number): readonly EndpointBacklog[] =>
        backlog.all(nowMs).map((row) => ({
          account: text(row, "account"),
          endpointId: text(row, "endpoint_id"),
          open: integer(row, "open"),
          oldestDueAtMs: integerOrNull(row, "oldest_due_at_ms"),
        })),
      /**
       * Counts due and unclaimed deliveries among the next open deliveries after this number, of which it examines at most
       * 20,000.
       */
      countDueDeliveries(after: number, nowMs: number): CountStep {
        const row = count.get(after, nowMs);
        if (row === undefined || integer(row, "examined") === 0) return { due: 0, after: null };
        const last = integer(row, "last");
        const claimed = held.get(after, last, nowMs);
        const due = integer(row, "due") - (claimed === undefined ? 0 : integer(claimed, "held"));
        return { due, after: integer(row, "examined") < countedMax ? null : last };
      },
    },
    writes: {},
  };
}

/** Reads of the queue. Lists and counts go step by step, so that other requests run in between. */
export function createDeliveryLog(
  link: StoreLink<ReturnType<typeof createListVerbs> & Pick<FanOut, "reads">>,
  now: () => number,
): Pick<DeliveryQueue, "find" | "payload" | "list" | "backlog" | "due"> {
  return {
    find: (id) => link.read("findDelivery", id, now()),
    payload: (id) => link.read("deliveryPayload", id),
    async list(filter, { limit, after }) {
      const deliveries: Delivery[] = [];
      let lastNumber = 0;
      let below = after === null ? null : positionOf(after);
      for (let steps = 0; steps < stepsMax; steps += 1) {
        // One more than the page holds shows whether there is a next page.
        const step: ListStep = await link.scan("listDeliveries", filter, below, limit + 1 - deliveries.length, now());
        for (const { number, delivery } of step.found) {
          if (deliveries.length === limit) return { deliveries, next: String(lastNumber) };
          deliveries.push(delivery);
          lastNumber = number;
        }
        below = step.below;
        if (below === null) return { deliveries, next: null };
      }
      return { deliveries, next: String(below) };
    },
    backlog: () => link.read("deliveryBacklog", now()),
    async due() {
      let { events: due } = await link.read("waitingEvents");
      for (let after: number | null = 0; after !== null; ) {
        const step: CountStep = await link.scan("countDueDeliveries", after, now());
        due += step.due;
        after = step.after;
      }
      return due;
    },
  };
}

/** Row number in a cursor. An invalid cursor stands for the position after the last delivery. */
function positionOf(after: string): number {
  const number = Number(after);
  return Number.isSafeInteger(number) ? number : 0;
}

/** An index that gives deliveries in the order of their numbers and skips many that the filter excludes. */
interface ListPath {
  readonly source: string;
  /** Column with the delivery's number. */
  readonly number: string;
  /** SQL condition on the key of the index, which is parameter 1. */
  readonly condition: string;
}

const by = (index: string, condition: string): ListPath => ({
  source: `deliveries INDEXED BY ${index}`,
  number: "number",
  condition,
});

const listPaths = {
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

/** Indexes for states that few deliveries have at the same time. Most deliveries are delivered. */
const pathOfState: Partial<Record<DeliveryState, ListPath>> = {
  delivery_attempted: listPaths.held,
  awaiting_retry: listPaths.troubled,
  permanently_failed: listPaths.troubled,
  pending: listPaths.open,
};

const mostCommonType: EventType = "request.completed";

/** The most selective index that contains all deliveries that the filter matches, and the key in it. */
function pathFor(filter: DeliveryFilter, nowMs: number): { readonly path: ListPath; readonly key: SqlValue } {
  const { state, replayId, endpointId, account, eventType } = filter;
  if (replayId !== null) return { path: listPaths.replay, key: replayId };
  const path = state === null ? undefined : pathOfState[state];
  if (path !== undefined) return { path, key: path === listPaths.held ? nowMs : state };
  if (eventType !== null && eventType !== mostCommonType) return { path: listPaths.rareType, key: eventType };
  if (endpointId !== null) return { path: listPaths.endpoint, key: endpointId };
  if (account !== null) return { path: listPaths.account, key: account };
  return { path: listPaths.all, key: null };
}

const columns = columnsOf<Omit<Delivery, "state" | "nextAttemptAtMs" | "isPurged">>(
  "id, account, event_id, event_type, endpoint_id, reason, created_at_ms, attempts_made, replay_id, attempts_json",
);

/** Columns for `toDelivery`. `now` is the parameter with the store's time. */
function deliveryColumns(now: `?${number}`): string {
  return `number, ${columns.names}, due_at_ms, is_purged,
    CASE WHEN ${isFree(now)} THEN state ELSE 'delivery_attempted' END AS state`;
}

function toDelivery(row: SqlRow): Delivery {
  const state = text(row, "state") as DeliveryState;
  const nextAttemptAtMs = state === "delivery_attempted" ? null : integerOrNull(row, "due_at_ms");
  return { ...columns.read(row), state, nextAttemptAtMs, isPurged: integer(row, "is_purged") === 1 };
}

/**
 * Returns a function from a time to the least number of a delivery that was created then or later; above all numbers when
 * there is none. Numbers rise with the time of creation, because the store's time never goes back, so a range of time is a
 * range of numbers, and every index that ends with the number also serves times. A call reads about 20 rows.
 */
export function createFirstCreatedAt(db: SqliteDatabase) {
  const highest = db.prepare("SELECT max(number) AS highest FROM deliveries");
  const atOrAfter = db.prepare(
    "SELECT number, created_at_ms FROM deliveries WHERE number >= ? ORDER BY number LIMIT 1",
  );
  return (atMs: number): number => {
    let low = 0;
    let high = Number(highest.get()?.["highest"] ?? 0) + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = atOrAfter.get(middle);
      if (row === undefined || integer(row, "created_at_ms") >= atMs) high = middle;
      else low = integer(row, "number") + 1;
    }
    return low;
  };
}
