import { type Attempt, attemptsKept } from "../../../domain/webhooks/delivery.js";
import type { AttemptOutcome, FinishRequest } from "../../../domain/webhooks/delivery-queue.js";
import { type EndpointHealth, freshHealth } from "../../../domain/webhooks/endpoint-store.js";
import { integer, integerOrNull, type SqliteDatabase, type SqlRow } from "../database/sqlite.js";
import type { QueueRows } from "./making.js";

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

/** How deliveries to endpoints go. Changes of one transaction are added up and written at its end. */
export function createEndpointHealth(db: SqliteDatabase) {
  const read = db.prepare("SELECT * FROM endpoints WHERE id = ?");
  const write = db.prepare(
    `UPDATE endpoints SET last_success_at_ms = ?2, last_failure_at_ms = ?3, failing_since_ms = ?4, failures_in_row = ?5,
       permanently_failed = ?6
     WHERE id = ?1`,
  );
  let changed = new Map<string, EndpointHealth>();
  const find = (endpointId: string): EndpointHealth | null => {
    const row = changed.has(endpointId) ? undefined : read.get(endpointId);
    return changed.get(endpointId) ?? (row === undefined ? null : toHealth(row));
  };
  return {
    /** After an attempt that came to this; fresh health for an endpoint that is gone. */
    note(endpointId: string, { state }: AttemptOutcome, nowMs: number): EndpointHealth {
      const before = find(endpointId);
      if (before === null) return freshHealth;
      const after = state === "delivered" ? afterSuccess(before, nowMs) : afterFailure(before, state, nowMs);
      changed.set(endpointId, after);
      return after;
    },
    writeChanged(): void {
      if (changed.size === 0) return;
      for (const [id, health] of changed) {
        const { lastSuccessAtMs, lastFailureAtMs, failingSinceMs, failuresInRow, permanentlyFailed } = health;
        write.run(id, lastSuccessAtMs, lastFailureAtMs, failingSinceMs, failuresInRow, permanentlyFailed);
      }
      changed = new Map();
    },
    forgetChanged(): void {
      changed = new Map();
    },
  };
}

export type EndpointHealthRows = ReturnType<typeof createEndpointHealth>;

/** Health in a row of `endpoints`. */
export function toHealth(row: SqlRow): EndpointHealth {
  return {
    lastSuccessAtMs: integerOrNull(row, "last_success_at_ms"),
    lastFailureAtMs: integerOrNull(row, "last_failure_at_ms"),
    failingSinceMs: integerOrNull(row, "failing_since_ms"),
    failuresInRow: integer(row, "failures_in_row"),
    permanentlyFailed: integer(row, "permanently_failed"),
  };
}

function afterSuccess(before: EndpointHealth, nowMs: number): EndpointHealth {
  return { ...freshHealth, lastFailureAtMs: before.lastFailureAtMs, lastSuccessAtMs: nowMs };
}

function afterFailure(before: EndpointHealth, state: AttemptOutcome["state"], nowMs: number): EndpointHealth {
  return {
    lastSuccessAtMs: before.lastSuccessAtMs,
    lastFailureAtMs: nowMs,
    failingSinceMs: before.failingSinceMs ?? nowMs,
    failuresInRow: before.failuresInRow + 1,
    permanentlyFailed: before.permanentlyFailed + (state === "permanently_failed" ? 1 : 0),
  };
}
