import type { EventType } from "../../../domain/events/event.js";
import type { DeliveryFailure } from "../../../domain/webhooks/delivery.js";
import type { Claim, Claimed, ClaimOptions } from "../../../domain/webhooks/delivery-queue.js";
import { integer, type SqliteDatabase, type SqlRow, text } from "../database/sqlite.js";
import { isFree } from "./delivery-row.js";
import { never, type QueueRows } from "./making.js";

/** Queues that one claim looks into, and deliveries of disabled endpoints that it ends: some milliseconds of work. */
const queuesMax = 256;
const drainedMax = 256;

/** What of a claim it takes to give it back. */
export type Held = Pick<Claim, "fence" | "endpointId" | "account">;

/**
 * Who works on which delivery (WH-32 to WH-34, WH-37). A claim is a row of its own, so that it costs little however large
 * the delivery is. `queues.ready_at_ms` says before when nothing of an endpoint can be claimed, so only those that have
 * something are looked into, the one that was served least recently first. It is never too late: whatever makes
 * something due or gives room lowers it, and a look sets it right.
 */
export function createClaiming(db: SqliteDatabase, queues: QueueRows, { drain }: Draining) {
  const ready = db.prepare(
    `SELECT endpoint_id, account FROM queues INDEXED BY queues_ready WHERE open > 0 AND ready_at_ms <= ?
     ORDER BY turn, endpoint_id LIMIT ${queuesMax}`,
  );
  const soonest = db.prepare(
    "SELECT ready_at_ms FROM queues INDEXED BY queues_ready WHERE open > 0 ORDER BY ready_at_ms LIMIT 1",
  );
  const endpoint = db.prepare(
    `SELECT status, max_in_flight,
       (SELECT count(*) FROM leases WHERE endpoint_id = endpoints.id AND ends_at_ms > ?2) AS in_flight
     FROM endpoints WHERE id = ?1`,
  );
  const newestFence = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'leases'");
  // Those of one moment in the order of their making: an index ends with the row's number.
  const take = db.prepare(
    `INSERT OR REPLACE INTO leases (delivery_number, endpoint_id, ends_at_ms)
     SELECT number, endpoint_id, ?3 FROM deliveries INDEXED BY deliveries_due
     WHERE endpoint_id = ?1 AND due_at_ms <= ?2 AND ${isFree("?2")}
     ORDER BY due_at_ms, number LIMIT ?4`,
  );
  const taken = db.prepare(
    `SELECT fence, id, account, deliveries.endpoint_id, event_id, event_type, body, attempts_made, retries_used,
       is_manual, asked_by, is_single, due_at_ms
     FROM leases JOIN deliveries ON number = delivery_number WHERE fence > ? ORDER BY fence`,
  );
  // Ready again: when somebody's lease runs out or, unless all places are taken, when the next one is due.
  const setReady = db.prepare(
    `UPDATE queues SET turn = max(turn, ?4), ready_at_ms = min(
       coalesce((SELECT min(ends_at_ms) FROM leases WHERE endpoint_id = ?1 AND ends_at_ms > ?2), ?5),
       CASE WHEN ?3 THEN ?5 ELSE coalesce(
         (SELECT due_at_ms FROM deliveries INDEXED BY deliveries_due
          WHERE endpoint_id = ?1 AND due_at_ms IS NOT NULL AND ${isFree("?2")} ORDER BY due_at_ms LIMIT 1), ?5) END)
     WHERE endpoint_id = ?1`,
  );
  const giveBack = db.prepare("DELETE FROM leases WHERE fence = ?");

  return {
    claim({ max, leaseMs }: ClaimOptions, nowMs: number): Claimed {
      queues.writeNoted();
      const fenceBefore = Number(newestFence.get()?.["seq"] ?? 0);
      let left = max;
      let drainable = drainedMax;
      for (const row of ready.all(nowMs)) {
        if (left === 0) break;
        const endpointId = text(row, "endpoint_id");
        const found = endpoint.get(endpointId, nowMs);
        if (found === undefined || text(found, "status") !== "enabled") {
          const reason = found === undefined ? "endpoint_deleted" : "endpoint_disabled";
          drainable -= drain({ endpointId, account: text(row, "account"), reason }, nowMs, drainable);
          setReady.run(endpointId, nowMs, 0, 0, never);
          continue;
        }
        const places = integer(found, "max_in_flight") - integer(found, "in_flight");
        const wanted = Math.max(0, Math.min(places, left));
        const got = wanted === 0 ? 0 : Number(take.run(endpointId, nowMs, nowMs + leaseMs, wanted).changes);
        left -= got;
        const turn = got === 0 ? 0 : fenceBefore + max - left;
        setReady.run(endpointId, nowMs, got >= places ? 1 : 0, turn, never);
      }
      queues.writeNoted();
      const claims = left === max ? [] : taken.all(fenceBefore).map(toClaim);
      const next = soonest.get();
      return { claims, nextInMs: next === undefined ? null : Math.max(0, integer(next, "ready_at_ms") - nowMs) };
    },
    /** Those that are held by somebody else now have another fence. */
    handBack(held: readonly Held[]): void {
      for (const { fence, endpointId, account } of held) {
        const isGivenBack = Number(giveBack.run(fence).changes) === 1;
        if (isGivenBack) queues.note({ endpointId, account, opened: 0, readyAtMs: 0 });
      }
    },
  };
}

function toClaim(row: SqlRow): Claim {
  return {
    deliveryId: text(row, "id"),
    account: text(row, "account"),
    endpointId: text(row, "endpoint_id"),
    eventId: text(row, "event_id"),
    eventType: text(row, "event_type") as EventType,
    body: text(row, "body"),
    fence: integer(row, "fence"),
    attemptNumber: integer(row, "attempts_made") + 1,
    retriesUsed: integer(row, "retries_used"),
    trigger: integer(row, "is_manual") === 1 ? "manual" : "schedule",
    by: text(row, "asked_by"),
    isSingle: integer(row, "is_single") === 1,
    dueAtMs: integer(row, "due_at_ms"),
  };
}

export interface Drained {
  readonly endpointId: string;
  readonly account: string;
  readonly reason: DeliveryFailure;
}

/** Ends what waits for an endpoint that takes nothing any more (WH-30). */
export function createDraining(db: SqliteDatabase, queues: QueueRows) {
  const end = db.prepare(
    `UPDATE deliveries SET state = 'permanently_failed', reason = ?2, due_at_ms = NULL, ended_at_ms = ?3,
       is_manual = 0, asked_by = '', is_single = 0
     WHERE number IN (
       SELECT number FROM deliveries INDEXED BY deliveries_due
       WHERE endpoint_id = ?1 AND due_at_ms IS NOT NULL AND ${isFree("?3")} LIMIT ?4
     )`,
  );
  const endLeases = db.prepare("DELETE FROM leases WHERE endpoint_id = ? AND ends_at_ms <= ?");
  return {
    /** At most `max` deliveries, due or not, but none that is under way; how many it was. */
    drain({ endpointId, account, reason }: Drained, nowMs: number, max: number): number {
      // Whoever held one comes too late now, and must not end it a second time.
      endLeases.run(endpointId, nowMs);
      const ended = Number(end.run(endpointId, reason, nowMs, max).changes);
      queues.note({ endpointId, account, opened: -ended, readyAtMs: never });
      return ended;
    },
  };
}

export type Draining = ReturnType<typeof createDraining>;
