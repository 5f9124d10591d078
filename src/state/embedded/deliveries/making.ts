import type { EventDraft } from "../../../domain/events/event.js";
import { deliveryId } from "../../../domain/webhooks/delivery.js";
import { integer, type SqliteDatabase, text } from "../database/sqlite.js";

/** How deliveries come to be, as a part of a settlement. An account may have `openMax` that have not ended. */
export function createDeliveryMaking(db: SqliteDatabase, queues: QueueRows, openMax: number) {
  const receivers = db.prepare(
    `SELECT id FROM endpoints WHERE account = ? AND status = 'enabled'
       AND EXISTS (SELECT 1 FROM json_each(events_json) WHERE value = ?)`,
  );
  const insertDue = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body)
     VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?6, ?7) ON CONFLICT DO NOTHING`,
  );
  const insertEnded = db.prepare(
    `INSERT INTO deliveries (id, account, event_id, event_type, endpoint_id, state, reason, created_at_ms, ended_at_ms,
       body)
     VALUES (?1, ?2, ?3, ?4, ?5, 'permanently_failed', 'overflow', ?6, ?6, ?7) ON CONFLICT DO NOTHING`,
  );
  return {
    /**
     * Creates a delivery for each enabled endpoint that subscribes to the type; a repeated event creates none. Beyond the
     * account's bound they fail as `overflow` (WH-52). Returns the number that are due now.
     */
    emit(account: string, event: EventDraft, nowMs: number): number {
      const rows = receivers.all(account, event.type);
      if (rows.length === 0) return 0;
      const room = openMax - queues.openOf(account);
      const { id, type, body } = event;
      let made = 0;
      for (const row of rows) {
        const endpointId = text(row, "id");
        const values = [deliveryId(id, endpointId), account, id, type, endpointId, nowMs, body] as const;
        if (made >= room) insertEnded.run(...values);
        else if (Number(insertDue.run(...values).changes) === 1) {
          queues.note({ endpointId, account, opened: 1, readyAtMs: nowMs });
          made += 1;
        }
      }
      return made;
    },
  };
}

export type DeliveryMaking = ReturnType<typeof createDeliveryMaking>;

/** Later than any time. */
export const never = Number.MAX_SAFE_INTEGER;

/** What a step does to the queue of an endpoint. */
export interface QueueChange {
  readonly endpointId: string;
  readonly account: string;
  /** Deliveries that became open, less those that ended. */
  readonly opened: number;
  /** When something of it may be claimed; 0: at the next claim. */
  readonly readyAtMs: number;
}

/**
 * One row for each endpoint that has or had deliveries: how many are open, so that bound and backlog cost the same with a
 * million, and before when nothing can be claimed. Whoever opens or ends a delivery notes it here. Notes of one
 * transaction are added up and written at its end.
 */
export function createQueueRows(db: SqliteDatabase) {
  const write = db.prepare(
    `INSERT INTO queues (endpoint_id, account, open, ready_at_ms, turn) VALUES (?, ?, ?, ?, 0)
     ON CONFLICT (endpoint_id) DO UPDATE SET open = open + excluded.open,
       ready_at_ms = min(ready_at_ms, excluded.ready_at_ms)`,
  );
  const sumOpen = db.prepare("SELECT coalesce(sum(open), 0) AS open FROM queues WHERE account = ?");
  const wake = db.prepare("UPDATE queues SET ready_at_ms = 0 WHERE endpoint_id = ?");
  const forget = db.prepare("DELETE FROM queues WHERE open = 0 AND endpoint_id NOT IN (SELECT id FROM endpoints)");
  let noted = new Map<string, QueueChange>();
  return {
    note(change: QueueChange): void {
      const before = noted.get(change.endpointId);
      if (before === undefined) noted.set(change.endpointId, change);
      else {
        const opened = before.opened + change.opened;
        noted.set(change.endpointId, { ...change, opened, readyAtMs: Math.min(before.readyAtMs, change.readyAtMs) });
      }
    },
    writeNoted(): void {
      if (noted.size === 0) return;
      for (const { endpointId, account, opened, readyAtMs } of noted.values()) {
        write.run(endpointId, account, opened, readyAtMs);
      }
      noted = new Map();
    },
    forgetNoted(): void {
      noted = new Map();
    },
    /** Open deliveries of an account, with what was noted. */
    openOf(account: string): number {
      const row = sumOpen.get(account);
      let open = row === undefined ? 0 : integer(row, "open");
      for (const change of noted.values()) if (change.account === account) open += change.opened;
      return open;
    },
    /** The next claim looks into it: to end what it holds, or because there is more room than before. */
    wake: (endpointId: string): void => void wake.run(endpointId),
    /** Removes those of endpoints that are gone, when all their deliveries have ended. */
    forgetEmpty: (): void => void forget.run(),
  };
}

export type QueueRows = ReturnType<typeof createQueueRows>;
