import { type Attempt, attemptsKept } from "../../../domain/webhooks/delivery.js";
import type { AttemptOutcome, FinishRequest } from "../../../domain/webhooks/delivery-queue.js";
import type { EndpointHealth } from "../../../domain/webhooks/endpoint-store.js";
import type { SqliteDatabase } from "../sqlite-binding.js";
import type { EndpointHealthRows } from "./endpoint-health.js";
import type { QueueRows } from "./queue-rows.js";

/** The end of an attempt as it goes to the worker: all that is written and nothing else, each field costs on its way. */
export interface FinishedAttempt {
  readonly deliveryId: string;
  readonly endpointId: string;
  readonly account: string;
  readonly fence: number;
  readonly outcome: AttemptOutcome;
  /** JSON of an Attempt. */
  readonly attempt: string;
  /** When the delivery is due next; null: it has ended. */
  readonly dueAtMs: number | null;
  readonly nowMs: number;
}

export function finishedAttempt({ claim, result, outcome }: FinishRequest, nowMs: number): FinishedAttempt {
  const { deliveryId, endpointId, account, fence, attemptNumber, trigger, by } = claim;
  const dueAtMs = outcome.state === "awaiting_retry" ? nowMs + outcome.delayMs : null;
  const { startedAtMs, latencyMs, status, error, ip, response, retryAfter } = result;
  const attempt: Attempt = {
    number: attemptNumber,
    trigger,
    by,
    startedAtMs,
    latencyMs,
    status,
    error,
    ip,
    response,
    retryAfter,
    nextAttemptAtMs: dueAtMs,
  };
  return { deliveryId, endpointId, account, fence, outcome, attempt: JSON.stringify(attempt), dueAtMs, nowMs };
}

/** Attempts that end: the attempt, the state and the endpoint's health in one step (WH-44), for the holder only (WH-33). */
export function createFinishing(db: SqliteDatabase, queues: QueueRows, health: EndpointHealthRows) {
  const finish = db.prepare(
    `UPDATE deliveries SET state = ?3, reason = ?4, due_at_ms = ?5, ended_at_ms = ?6, retries_used = retries_used + ?7,
       attempts_made = attempts_made + 1, is_manual = 0, asked_by = '', is_single = 0,
       attempts_json = json_insert(
         CASE WHEN attempts_made < ${attemptsKept} THEN attempts_json ELSE json_remove(attempts_json, '$[0]') END,
         '$[#]', json(?8))
     WHERE number = (SELECT delivery_number FROM leases WHERE fence = ?1) AND id = ?2`,
  );
  const endLease = db.prepare("DELETE FROM leases WHERE fence = ?");
  return {
    /** Null: somebody else holds the delivery, or it has ended. */
    finish(finished: FinishedAttempt): EndpointHealth | null {
      const { deliveryId, endpointId, account, fence, outcome, attempt, dueAtMs, nowMs } = finished;
      const reason = outcome.state === "permanently_failed" ? outcome.reason : null;
      const endedAtMs = dueAtMs === null ? nowMs : null;
      const retries = dueAtMs === null ? 0 : 1;
      const done = finish.run(fence, deliveryId, outcome.state, reason, dueAtMs, endedAtMs, retries, attempt);
      if (Number(done.changes) === 0) return null;
      endLease.run(fence);
      // There is room at the endpoint now.
      queues.note({ endpointId, account, opened: dueAtMs === null ? -1 : 0, readyAtMs: 0 });
      return health.note(endpointId, outcome, nowMs);
    },
  };
}
