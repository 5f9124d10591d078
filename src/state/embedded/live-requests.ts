import type { Progress } from "../../domain/call/live-requests.js";
import type { LostRequest } from "../../domain/metering/ledger.js";
import { integer, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";

/** A request that runs, as the file keeps it for the case that this process dies. */
export type LiveRow = LostRequest;

/** Running requests: written so that the next process can account for those that this one leaves behind. */
export function createLiveRows(db: SqliteDatabase) {
  const insert = db.prepare(
    `INSERT INTO live_requests (request_id, account, key_id, model, operation, prompt_tokens, completion_tokens,
       admitted_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const progress = db.prepare("UPDATE live_requests SET prompt_tokens = ?, completion_tokens = ? WHERE request_id = ?");
  const remove = db.prepare("DELETE FROM live_requests WHERE request_id IN (SELECT value FROM json_each(?))");
  const all = db.prepare("SELECT * FROM live_requests ORDER BY admitted_at_ms");
  let removed: string[] = [];
  return {
    insert(rows: readonly LiveRow[]): void {
      for (const {
        requestId,
        account,
        keyId,
        model,
        operation,
        promptTokens,
        completionTokens,
        admittedAtMs,
      } of rows) {
        insert.run(requestId, account, keyId, model, operation, promptTokens, completionTokens, admittedAtMs);
      }
    },
    progress(told: readonly Progress[]): void {
      for (const { requestId, promptTokens, completionTokens } of told) {
        progress.run(promptTokens, completionTokens, requestId);
      }
    },
    /** At the end of the transaction: one statement removes all that ended in it, most of which were never written. */
    remove(requestId: string): void {
      removed.push(requestId);
    },
    writeRemoved(): void {
      if (removed.length === 0) return;
      remove.run(JSON.stringify(removed));
      removed = [];
    },
    forgetRemoved(): void {
      removed = [];
    },
    all: (): readonly LiveRow[] => all.all().map(toLiveRow),
  };
}

export type LiveRows = ReturnType<typeof createLiveRows>;

function toLiveRow(row: SqlRow): LiveRow {
  return {
    requestId: text(row, "request_id"),
    account: text(row, "account"),
    keyId: row["key_id"] === null ? null : text(row, "key_id"),
    model: text(row, "model"),
    operation: text(row, "operation") as LiveRow["operation"],
    admittedAtMs: integer(row, "admitted_at_ms"),
    promptTokens: integer(row, "prompt_tokens"),
    completionTokens: integer(row, "completion_tokens"),
  };
}
