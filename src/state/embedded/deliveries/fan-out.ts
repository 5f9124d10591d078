import type { EventDraft, EventType } from "../../../domain/events/events.js";
import { deliveryId } from "../../../domain/webhooks/delivery.js";
import type { DeliveryQueue, WaitingEvents } from "../../../domain/webhooks/delivery-queue.js";
import { type CollectedRows, integer, type SqliteDatabase, type SqlRow, text } from "../database/sqlite.js";
import type { StoreLink } from "../database/worker-link.js";
import type { QueueRows } from "./endpoints.js";

/**
 * If a time is earlier than the one before by less than this, calls arrived out of order; if by more, the clock was set
 * back.
 */
const disorderMs = 60_000;
/** Number of deliveries that are created for one account before the next account has its turn. */
const turnMax = 32;

/** Writes an event. Returns false if no enabled endpoint subscribes to its type. */
export type Emit = (account: string, event: EventDraft, nowMs: number) => boolean;

interface FanOutDeps {
  readonly collected: CollectedRows;
  readonly queues: QueueRows;
  /** Maximum number of open deliveries of an account (WH-52). */
  readonly openDeliveriesMax: number;
  /** Maximum number of events of an account whose deliveries are not created yet. */
  readonly waitingEventsMax: number;
}

/**
 * Events, and their deliveries. A settlement writes one row for an event, with its body and the ids of the endpoints that
 * are enabled and subscribed at that time (WH-14). The deliveries are created from these rows in later steps, for one
 * account after the other, and share the body of the row. If too many events of an account wait, the settlement itself
 * creates the deliveries of the oldest event, so that the number is bounded even if no process sends deliveries.
 */
export function createFanOut(db: SqliteDatabase, deps: FanOutDeps) {
  const { collected, queues, openDeliveriesMax, waitingEventsMax } = deps;
  const receivers = db.prepare(
    `SELECT json_group_array(id) AS ids FROM endpoints WHERE account = ? AND status = 'enabled'
       AND EXISTS (SELECT 1 FROM json_each(events_json) WHERE value = ?)`,
  );
  const insertEvent = db.prepare(
    "INSERT INTO events (account, id, type, at_ms, receivers_json, body) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const isWaiting = "FROM events INDEXED BY events_waiting WHERE receivers_json IS NOT NULL";
  const nextAccount = db.prepare(`SELECT account ${isWaiting} AND account > ? ORDER BY account LIMIT 1`);
  const oldest = db.prepare(
    `SELECT number, id, type, at_ms, receivers_json ${isWaiting} AND account = ? ORDER BY number LIMIT ?`,
  );
  const fannedOut = db.prepare(
    "UPDATE events SET receivers_json = NULL WHERE number IN (SELECT value FROM json_each(?))",
  );
  const removeEvent = db.prepare("DELETE FROM events WHERE number = ?");
  const insertDue = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body,
       event_number)
     VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, '', ?) ON CONFLICT DO NOTHING`,
  );
  const insertEnded = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, reason, created_at_ms, ended_at_ms,
       body, event_number)
     VALUES (?1, ?2, ?3, ?4, ?5, 'permanently_failed', 'overflow', ?6, ?6, '', ?7) ON CONFLICT DO NOTHING`,
  );
  const removeUnused = db.prepare(
    `DELETE FROM events WHERE receivers_json IS NULL AND number IN (SELECT value FROM json_each(?))
       AND NOT EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_of_event
                       WHERE event_number = events.number AND is_purged = 0)`,
  );

  /** Number of waiting events of each account. */
  const waiting = new Map<string, number>(
    db
      .prepare(`SELECT account, count(*) AS events ${isWaiting} GROUP BY account`)
      .all()
      .map((row) => [text(row, "account"), integer(row, "events")]),
  );
  /** Changes of `waiting` by the current transaction. */
  const changed = collected.of<number>((changes) => {
    for (const [account, by] of changes) {
      const after = (waiting.get(account) ?? 0) + by;
      if (after > 0) waiting.set(account, after);
      else waiting.delete(account);
    }
  });
  const count = (account: string, by: number): void => changed.set(account, (changed.get(account) ?? 0) + by);
  const waitingOf = (account: string): number => (waiting.get(account) ?? 0) + (changed.get(account) ?? 0);

  /** Creation times of deliveries never decrease, so that a range of times is a range of row numbers. */
  let newestAtMs = 0;
  /**
   * Creates the deliveries of one event, of which at most `room` are open and the others fail with `overflow`. Returns the
   * number of open ones, and of all.
   */
  const deliver = (account: string, event: SqlRow, endpointIds: readonly string[], room: number, nowMs: number) => {
    const [number, id, type] = [integer(event, "number"), text(event, "id"), text(event, "type")];
    // The clock may have been set back since the event was written.
    const atMs = Math.min(integer(event, "at_ms"), nowMs);
    newestAtMs = newestAtMs - nowMs > disorderMs ? nowMs : Math.max(newestAtMs, nowMs);
    let opened = 0;
    let failed = 0;
    for (const endpointId of endpointIds) {
      const ids = [deliveryId(id, endpointId), account, id, type, endpointId, newestAtMs] as const;
      if (opened >= room) failed += Number(insertEnded.run(...ids, number).changes);
      else if (Number(insertDue.run(...ids, atMs, number).changes) === 1) {
        queues.note({ endpointId, account, opened: 1, readyAtMs: atMs });
        opened += 1;
      }
    }
    return { opened, created: opened + failed };
  };

  /** Creates about `max` deliveries of the account's oldest events. Returns how many, 0 if no event waited. */
  const deliverOldest = (account: string, max: number, nowMs: number): number => {
    let room = openDeliveriesMax - queues.openOf(account);
    let events = 0;
    let deliveries = 0;
    const done: number[] = [];
    for (const event of oldest.all(account, max)) {
      const endpointIds = JSON.parse(text(event, "receivers_json")) as readonly string[];
      const { opened, created } = deliver(account, event, endpointIds, room, nowMs);
      const number = integer(event, "number");
      // The deliveries exist already if the event is repeated; they use the body of the first row.
      if (created === 0) removeEvent.run(number);
      else done.push(number);
      room -= opened;
      events += 1;
      deliveries += endpointIds.length;
      if (deliveries >= max) break;
    }
    if (done.length > 0) fannedOut.run(JSON.stringify(done));
    // If no event waits although the count is not 0, the count is wrong because the commit of an earlier change failed.
    count(account, events === 0 ? -waitingOf(account) : -events);
    return deliveries;
  };

  let lastAccount = "";
  const fanOut = (max: number, nowMs: number): boolean => {
    for (let left = max; left > 0; ) {
      const next = nextAccount.get(lastAccount) ?? nextAccount.get("");
      if (next === undefined) return false;
      lastAccount = text(next, "account");
      left -= deliverOldest(lastAccount, Math.min(turnMax, left), nowMs);
    }
    return nextAccount.get("") !== undefined;
  };

  const receiversOf = (account: string, type: EventType): string => {
    const row = receivers.get(account, type);
    return row === undefined ? "[]" : text(row, "ids");
  };

  return {
    /** Returns a function that writes events, for one step that changes no endpoint: it reads their receivers only once. */
    beginEvents(): Emit {
      const known = new Map<string, string>();
      return (account, { id, type, body }, nowMs) => {
        const name = `${account}\n${type}`;
        let ids = known.get(name);
        if (ids === undefined) {
          ids = receiversOf(account, type);
          known.set(name, ids);
        }
        if (ids === "[]") return false;
        insertEvent.run(account, id, type, nowMs, ids, body);
        count(account, 1);
        if (waitingOf(account) > waitingEventsMax) deliverOldest(account, 1, nowMs);
        return true;
      };
    },
    /** Creates about `max` deliveries. Returns whether more events wait. */
    fanOut,
    /** Removes the given events, except those with a delivery that still has its payload. */
    removeUnused(numbers: readonly number[]): void {
      if (numbers.length > 0) removeUnused.run(JSON.stringify(numbers));
    },
    reads: {
      waitingEvents(): WaitingEvents {
        const events = [...waiting.values()].reduce((sum, each) => sum + each, 0);
        const firsts = [...waiting.keys()].flatMap((account) => oldest.all(account, 1));
        const oldestAtMs = firsts.length === 0 ? null : Math.min(...firsts.map((row) => integer(row, "at_ms")));
        return { events, oldestAtMs };
      },
    },
    writes: { fanOut },
  };
}

export type FanOut = ReturnType<typeof createFanOut>;

export function createEventVerbs(
  link: StoreLink<Pick<FanOut, "reads" | "writes">>,
  now: () => number,
): Pick<DeliveryQueue, "fanOut" | "waitingEvents"> {
  return {
    fanOut: (max) => link.writeUnsynced("fanOut", max, now()),
    waitingEvents: () => link.read("waitingEvents"),
  };
}
