import type { ConversationStep, ResponseStore, StoredResponse } from "../../domain/responses/response-store.js";
import { columnsOf, integer, type SqliteDatabase } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

const columns = columnsOf<StoredResponse>("account, id, created_at_ms, previous_id, items, sealed");

/** Stored responses in the database. Triggers count the responses of each account. */
export function createResponseVerbs(db: SqliteDatabase) {
  const insert = db.prepare(`INSERT OR IGNORE INTO responses (${columns.names}) VALUES (${columns.placeholders})`);
  const counted = db.prepare("SELECT stored FROM response_counts WHERE account = ?");
  const removeOldest = db.prepare(
    `DELETE FROM responses WHERE number IN
       (SELECT number FROM responses WHERE account = ? ORDER BY created_at_ms, number LIMIT ?)`,
  );
  const one = db.prepare(`SELECT ${columns.names} FROM responses WHERE account = ? AND id = ?`);
  const remove = db.prepare("DELETE FROM responses WHERE account = ? AND id = ?");
  const removeOld = db.prepare(
    `DELETE FROM responses WHERE number IN
       (SELECT number FROM responses WHERE created_at_ms < ? ORDER BY created_at_ms LIMIT ?)`,
  );
  const getResponse = (account: string, id: string): StoredResponse | null => {
    const row = one.get(account, id);
    return row === undefined ? null : columns.read(row);
  };
  return {
    reads: {
      getResponse,
      responsesOfConversation(account: string, id: string, step: ConversationStep): readonly StoredResponse[] {
        const found: StoredResponse[] = [];
        let chars = 0;
        for (let next: string | null = id; next !== null; ) {
          const response = getResponse(account, next);
          if (response === null) break;
          found.push(response);
          chars += response.sealed.length;
          next = found.length < step.responsesMax && chars < step.charsMax ? response.previousId : null;
        }
        return found;
      },
    },
    writes: {
      putResponse(response: StoredResponse, keepMax: number): void {
        if (Number(insert.run(...columns.values(response)).changes) === 0) return;
        const row = counted.get(response.account);
        const surplus = row === undefined ? 0 : integer(row, "stored") - keepMax;
        if (surplus > 0) removeOldest.run(response.account, surplus);
      },
      deleteResponse: (account: string, id: string): boolean => Number(remove.run(account, id).changes) === 1,
      purgeResponses: (beforeMs: number, max: number): number => Number(removeOld.run(beforeMs, max).changes),
    },
  };
}

export function createResponseStore(link: StoreLink<ReturnType<typeof createResponseVerbs>>): ResponseStore {
  return {
    put: (response, keepMax) => link.write("putResponse", response, keepMax),
    get: (account, id) => link.read("getResponse", account, id),
    conversation: (account, id, step) => link.read("responsesOfConversation", account, id, step),
    delete: (account, id) => link.write("deleteResponse", account, id),
    purge: (beforeMs, max) => link.write("purgeResponses", beforeMs, max),
  };
}
