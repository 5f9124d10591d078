import type { EndpointRecord } from "../../domain/webhooks/endpoint-store.js";
import type { EventType } from "../../domain/webhooks/event-draft.js";
import { integer, text } from "./sql-row.js";
import type { SqliteDatabase, SqlRow } from "./sqlite-binding.js";

/** Webhook endpoints: the verbs of EndpointStore, synchronous, each one step. */
export function createEndpointRows(db: SqliteDatabase) {
  const insert = db.prepare(
    `INSERT INTO endpoints (account, id, url, description, events_json, status, created_at_ms, updated_at_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const list = db.prepare("SELECT * FROM endpoints WHERE account = ? ORDER BY created_at_ms, id");
  const remove = db.prepare("DELETE FROM endpoints WHERE account = ? AND id = ?");
  const counts = db.prepare("SELECT account, count(*) AS endpoints FROM endpoints GROUP BY account");
  const removeOne = (account: string, id: string): boolean => Number(remove.run(account, id).changes) === 1;
  const insertOne = ({ account, id, url, description, events, status, createdAtMs, updatedAtMs }: EndpointRecord) => {
    insert.run(account, id, url, description, JSON.stringify(events), status, createdAtMs, updatedAtMs);
  };
  return {
    insert: insertOne,
    replace(endpoint: EndpointRecord): boolean {
      const was = removeOne(endpoint.account, endpoint.id);
      if (was) insertOne(endpoint);
      return was;
    },
    list: (account: string): readonly EndpointRecord[] => list.all(account).map(toEndpoint),
    remove: removeOne,
    /** Accounts that have endpoints, and how many. */
    counts: (): readonly (readonly [string, number])[] =>
      counts.all().map((row) => [text(row, "account"), integer(row, "endpoints")] as const),
  };
}

function toEndpoint(row: SqlRow): EndpointRecord {
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    url: text(row, "url"),
    description: text(row, "description"),
    events: JSON.parse(text(row, "events_json")) as EventType[],
    status: row["status"] === "enabled" ? "enabled" : "disabled",
    createdAtMs: integer(row, "created_at_ms"),
    updatedAtMs: integer(row, "updated_at_ms"),
  };
}
