import type { EventType } from "../../../domain/events/events.js";
import { type Attempt, attemptsKept, type DeliveryFailure } from "../../../domain/webhooks/delivery.js";
import {
  type AttemptOutcome,
  type Claim,
  type Claimed,
  type ClaimOptions,
  type DeliveryQueue,
  type FinishRequest,
  fanOutMax,
} from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import { integer, type SqliteDatabase, type SqlRow, text } from "../database/sqlite.js";
import type { StoreLink } from "../database/worker-link.js";
import { ClaimRoom } from "./claim-room.js";
import { type EndpointHealthRows, never, type QueueRows } from "./endpoints.js";
import type { FanOut } from "./fan-out.js";

/**
 * Maximum number of queues that one claim examines, and of deliveries of disabled endpoints that it ends: some milliseconds
 * of work.
 */
const queuesMax = 256;
const drainedMax = 256;

/** SQL condition on a row of `endpoints`: no success since its last failure, or since its creation. */
const hasNotAnswered = "(failures_in_row > 0 OR last_success_at_ms IS NULL)";

interface ClaimDeps {
  readonly queues: QueueRows;
  readonly health: EndpointHealthRows;
  readonly fanOut: Pick<FanOut, "fanOut">;
}

/**
 * Claims deliveries and ends their attempts (WH-32 to WH-34, WH-37). A claim is a separate row, so its cost does not depend
 * on the size of the delivery. `queues.ready_at_ms` is the time before which no delivery to an endpoint can be claimed. A
 * claim examines only queues for which this time has come, the least recently served one first. The time is never too late:
 * every step after which a delivery is due earlier or a slot is free lowers it, and examining the queue corrects it.
 */
export function createClaimVerbs(db: SqliteDatabase, { queues, health, fanOut }: ClaimDeps) {
  // A slow endpoint: it has no success since its last failure, or it is in the list of parameter 4.
  const isSlow = `(endpoint_id IN (SELECT value FROM json_each(?4)) OR EXISTS (
    SELECT 1 FROM endpoints WHERE id = endpoint_id AND status = 'enabled' AND ${hasNotAnswered}))`;
  // Parameters 1 and 2: accounts that hold all slots of their share, and of their share for slow endpoints; 3: whether slow
  // endpoints hold all their slots. Their queues are excluded in the query, because otherwise they would fill the result
  // and hide other queues.
  const hasShare = `open > 0 AND account NOT IN (SELECT value FROM json_each(?1))
    AND NOT ((?3 = 1 OR account IN (SELECT value FROM json_each(?2))) AND ${isSlow})`;
  const ready = db.prepare(
    `SELECT endpoint_id, account FROM queues INDEXED BY queues_ready WHERE ${hasShare} AND ready_at_ms <= ?5
     ORDER BY turn, endpoint_id LIMIT ${queuesMax}`,
  );
  const soonest = db.prepare(
    `SELECT ready_at_ms FROM queues INDEXED BY queues_ready WHERE ${hasShare} ORDER BY ready_at_ms LIMIT 1`,
  );
  const endpoint = db.prepare(
    `SELECT status, max_in_flight, ${hasNotAnswered} AS has_not_answered,
       (SELECT count(*) FROM leases WHERE endpoint_id = endpoints.id AND ends_at_ms > ?2) AS in_flight
     FROM endpoints WHERE id = ?1`,
  );
  const newestFence = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'leases'");
  // Deliveries due at the same time are claimed in the order of creation: an index ends with the row's number.
  const take = db.prepare(
    `INSERT OR REPLACE INTO leases (delivery_number, endpoint_id, ends_at_ms)
     SELECT number, endpoint_id, ?3 FROM deliveries INDEXED BY deliveries_due
     WHERE endpoint_id = ?1 AND due_at_ms <= ?2 AND ${isFree("?2")}
     ORDER BY due_at_ms, number LIMIT ?4`,
  );
  const taken = db.prepare(
    `SELECT (SELECT max_in_flight FROM endpoints WHERE endpoints.id = deliveries.endpoint_id) AS max_in_flight, fence,
       deliveries.id, deliveries.account, deliveries.endpoint_id, event_id, event_type,
       coalesce(events.body, deliveries.body) AS body, attempts_made, retries_used, is_manual, asked_by, is_single,
       due_at_ms
     FROM leases JOIN deliveries ON deliveries.number = delivery_number LEFT JOIN events ON events.number = event_number
     WHERE fence > ? ORDER BY fence`,
  );
  // The queue is ready again when a lease expires or, while the endpoint has a free slot, when the next delivery is due.
  const setReady = db.prepare(
    `UPDATE queues SET turn = max(turn, ?4), ready_at_ms = min(
       coalesce((SELECT min(ends_at_ms) FROM leases WHERE endpoint_id = ?1 AND ends_at_ms > ?2), ?5),
       CASE WHEN ?3 THEN ?5 ELSE coalesce(
         (SELECT due_at_ms FROM deliveries INDEXED BY deliveries_due
          WHERE endpoint_id = ?1 AND due_at_ms IS NOT NULL AND ${isFree("?2")} ORDER BY due_at_ms LIMIT 1), ?5) END)
     WHERE endpoint_id = ?1`,
  );
  const endLease = db.prepare("DELETE FROM leases WHERE fence = ?");
  const endExpired = db.prepare("DELETE FROM leases WHERE endpoint_id = ? AND ends_at_ms <= ?");
  const fail = db.prepare(
    `UPDATE deliveries SET state = 'permanently_failed', reason = ?2, due_at_ms = NULL, ended_at_ms = ?3,
       is_manual = 0, asked_by = '', is_single = 0
     WHERE number IN (
       SELECT number FROM deliveries INDEXED BY deliveries_due
       WHERE endpoint_id = ?1 AND due_at_ms IS NOT NULL AND ${isFree("?3")} LIMIT ?4
     )`,
  );
  const finish = db.prepare(
    `UPDATE deliveries SET state = ?3, reason = ?4, due_at_ms = ?5, ended_at_ms = ?6, retries_used = retries_used + ?7,
       attempts_made = attempts_made + 1, is_manual = 0, asked_by = '', is_single = 0,
       attempts_json = json_insert(
         CASE WHEN attempts_made < ${attemptsKept} THEN attempts_json ELSE json_remove(attempts_json, '$[0]') END,
         '$[#]', json(?8))
     WHERE number = (SELECT delivery_number FROM leases WHERE fence = ?1) AND id = ?2`,
  );

  /** Ends at most `max` deliveries of a disabled or deleted endpoint, due or not, that are not claimed (WH-30). */
  const drain = (endpointId: string, account: string, reason: DeliveryFailure, nowMs: number, max: number): number => {
    // The former holder of an expired lease must not end its delivery a second time.
    endExpired.run(endpointId, nowMs);
    const ended = Number(fail.run(endpointId, reason, nowMs, max).changes);
    queues.note({ endpointId, account, opened: -ended, readyAtMs: never });
    return ended;
  };

  return {
    reads: {},
    writes: {
      claimDeliveries({ max, leaseMs, shares }: ClaimOptions, nowMs: number): Claimed {
        const hasMoreEvents = fanOut.fanOut(fanOutMax, nowMs);
        queues.writeNoted();
        const fenceBefore = Number(newestFence.get()?.["seq"] ?? 0);
        const room = new ClaimRoom(max, shares);
        let drainable = drainedMax;
        do {
          for (const row of ready.all(...room.passedOver(), nowMs)) {
            if (room.left === 0) break;
            const endpointId = text(row, "endpoint_id");
            const account = text(row, "account");
            const found = endpoint.get(endpointId, nowMs);
            if (found === undefined || text(found, "status") !== "enabled") {
              const reason = found === undefined ? "endpoint_deleted" : "endpoint_disabled";
              drainable -= drain(endpointId, account, reason, nowMs, drainable);
              setReady.run(endpointId, nowMs, 0, 0, never);
              continue;
            }
            const isSlow = room.noteSlow(endpointId, integer(found, "has_not_answered") === 1);
            const slots = room.slotsOf(endpointId, integer(found, "max_in_flight")) - integer(found, "in_flight");
            const wanted = Math.max(0, Math.min(slots, room.of(account, isSlow)));
            const got = wanted === 0 ? 0 : Number(take.run(endpointId, nowMs, nowMs + leaseMs, wanted).changes);
            room.taken(account, isSlow, got);
            const turn = got === 0 ? 0 : fenceBefore + max - room.left;
            setReady.run(endpointId, nowMs, got >= slots ? 1 : 0, turn, never);
          }
        } while (room.widen());
        queues.writeNoted();
        const claims = room.left === max ? [] : taken.all(fenceBefore).map((row) => toClaim(row, room));
        if (hasMoreEvents) return { claims, nextInMs: 0 };
        const next = soonest.get(...room.passedOver());
        return { claims, nextInMs: next === undefined ? null : Math.max(0, integer(next, "ready_at_ms") - nowMs) };
      },
      /** Releases claims. Claims that were lost are skipped, because the new holder has another fencing token. */
      handBackDeliveries(held: readonly Pick<Claim, "fence" | "endpointId" | "account">[]): void {
        for (const { fence, endpointId, account } of held) {
          const isReleased = Number(endLease.run(fence).changes) === 1;
          if (isReleased) queues.note({ endpointId, account, opened: 0, readyAtMs: 0 });
        }
      },
      /** Writes attempt, state and health in one step (WH-44). Null: the claim was lost, or the delivery has ended. */
      finishDelivery(finished: FinishedAttempt): EndpointHealth | null {
        const { deliveryId, endpointId, account, fence, outcome, attempt, dueAtMs, nowMs } = finished;
        const reason = outcome.state === "permanently_failed" ? outcome.reason : null;
        const endedAtMs = dueAtMs === null ? nowMs : null;
        const retries = dueAtMs === null ? 0 : 1;
        const done = finish.run(fence, deliveryId, outcome.state, reason, dueAtMs, endedAtMs, retries, attempt);
        if (Number(done.changes) === 0) return null;
        endLease.run(fence);
        // The next claim examines the queue, because a slot of the endpoint is free now.
        queues.note({ endpointId, account, opened: dueAtMs === null ? -1 : 0, readyAtMs: 0 });
        return health.note(endpointId, outcome, nowMs);
      },
    },
  };
}

/**
 * The part of the queue that workers use. Claims and released claims are written but not synced: a power cut that loses a
 * claim also ends its worker, and the delivery is attempted again.
 */
export function createClaims(
  link: StoreLink<ReturnType<typeof createClaimVerbs>>,
  now: () => number,
): Pick<DeliveryQueue, "claim" | "finish" | "handBack"> {
  return {
    claim: (options) => link.writeUnsynced("claimDeliveries", options, now()),
    finish: (request) => link.write("finishDelivery", finishedAttempt(request, now())),
    async handBack(claims) {
      if (claims.length === 0) return;
      const held = claims.map(({ fence, endpointId, account }) => ({ fence, endpointId, account }));
      await link.writeUnsynced("handBackDeliveries", held);
    },
  };
}

/** The end of an attempt with only the fields that are written, because copying each field between the threads takes time. */
export interface FinishedAttempt extends Pick<Claim, "deliveryId" | "endpointId" | "account" | "fence"> {
  readonly outcome: AttemptOutcome;
  /** JSON of an Attempt. */
  readonly attempt: string;
  /** Time of the next attempt; null: the delivery has ended. */
  readonly dueAtMs: number | null;
  readonly nowMs: number;
}

export function finishedAttempt({ claim, result, outcome }: FinishRequest, nowMs: number): FinishedAttempt {
  const { deliveryId, endpointId, account, fence, attemptNumber, trigger, by } = claim;
  const dueAtMs = outcome.state === "awaiting_retry" ? nowMs + outcome.delayMs : null;
  const attempt: Attempt = { number: attemptNumber, trigger, by, ...result, nextAttemptAtMs: dueAtMs };
  return { deliveryId, endpointId, account, fence, outcome, attempt: JSON.stringify(attempt), dueAtMs, nowMs };
}

function toClaim(row: SqlRow, room: ClaimRoom): Claim {
  const endpointId = text(row, "endpoint_id");
  return {
    deliveryId: text(row, "id"),
    account: text(row, "account"),
    endpointId,
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
    maxInFlight: integer(row, "max_in_flight"),
    isSlow: room.isSlow(endpointId),
  };
}

/**
 * SQL condition, true of a row of `deliveries` without a lease at the time of the parameter `now`. An expired lease has no
 * effect, so a delivery whose worker died has its former state again without a write.
 */
export function isFree(now: `?${number}`): string {
  return `NOT EXISTS (SELECT 1 FROM leases WHERE delivery_number = deliveries.number AND ends_at_ms > ${now})`;
}
