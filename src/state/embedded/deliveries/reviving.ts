import type { SqliteDatabase } from "../sqlite-binding.js";
import type { QueueRows } from "./queue-rows.js";

export interface Revival {
  readonly number: number;
  readonly endpointId: string;
  readonly account: string;
  readonly dueAtMs: number;
  readonly by: string;
  readonly restart: boolean;
  /** Null: it keeps the one that it has. */
  readonly replayId: string | null;
}

/** Makes a delivery that has ended due again, because a person asked for it: for one attempt, or for a whole schedule. */
export function createReviving(db: SqliteDatabase, queues: QueueRows) {
  const revive = db.prepare(
    `UPDATE deliveries SET state = 'awaiting_retry', reason = NULL, due_at_ms = ?2, ended_at_ms = NULL, is_manual = 1,
       asked_by = ?3, is_single = 1 - ?4, retries_used = CASE WHEN ?4 THEN 0 ELSE retries_used END,
       replay_id = coalesce(?5, replay_id)
     WHERE number = ?1`,
  );
  return ({ number, endpointId, account, dueAtMs, by, restart, replayId }: Revival): void => {
    revive.run(number, dueAtMs, by, restart ? 1 : 0, replayId);
    queues.note({ endpointId, account, opened: 1, readyAtMs: dueAtMs });
  };
}

export type Revive = ReturnType<typeof createReviving>;
