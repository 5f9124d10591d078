import type { AttemptOutcome } from "../../../domain/webhooks/delivery-queue.js";
import { type EndpointHealth, freshHealth } from "../../../domain/webhooks/endpoint-store.js";
import { integer, integerOrNull } from "../sql-row.js";
import type { SqliteDatabase, SqlRow } from "../sqlite-binding.js";

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
