import type { EventType } from "../../domain/events/event.js";
import type {
  EndpointRecord,
  EndpointSecret,
  EndpointStore,
  KeptEndpoint,
} from "../../domain/webhooks/endpoint-store.js";
import { integer, type SqliteDatabase, type SqlRow, text, textOrNull } from "./database/sqlite.js";
import { type EndpointHealthRows, toHealth } from "./deliveries/finishing.js";
import type { QueueRows } from "./deliveries/making.js";

const columns = ["url", "description", "events_json", "status", "disabled_reason", "max_in_flight", "secrets_json"];
const places = (names: readonly string[]): string => names.map((_, position) => `?${position + 3}`).join(", ");

/** Webhook endpoints: the verbs of EndpointStore, synchronous, each one step. */
export function createEndpointRows(db: SqliteDatabase, queues: QueueRows, health: EndpointHealthRows) {
  const settable = [...columns, "version", "created_at_ms", "updated_at_ms"];
  const insert = db.prepare(
    `INSERT INTO endpoints (account, id, ${settable.join(", ")}) VALUES (?1, ?2, ${places(settable)})`,
  );
  const update = db.prepare(
    `UPDATE endpoints SET (${settable.join(", ")}) = (${places(settable)})
     WHERE account = ?1 AND id = ?2 AND version = ?10 - 1`,
  );
  const beginAnew = db.prepare(
    `UPDATE endpoints SET last_success_at_ms = NULL, last_failure_at_ms = NULL, failing_since_ms = NULL,
       failures_in_row = 0, permanently_failed = 0
     WHERE id = ?`,
  );
  const list = db.prepare("SELECT * FROM endpoints WHERE account = ? ORDER BY created_at_ms, id");
  const find = db.prepare("SELECT * FROM endpoints WHERE account = ? AND id = ?");
  const remove = db.prepare("DELETE FROM endpoints WHERE account = ? AND id = ?");
  const countOf = db.prepare("SELECT count(*) AS endpoints FROM endpoints WHERE account = ?");
  const counts = db.prepare("SELECT account, count(*) AS endpoints FROM endpoints GROUP BY account");
  return {
    insert(endpoint: EndpointRecord, max: number): boolean {
      if (Number(countOf.get(endpoint.account)?.["endpoints"] ?? 0) >= max) return false;
      insert.run(...valuesOf(endpoint));
      return true;
    },
    replace(endpoint: EndpointRecord): Awaited<ReturnType<EndpointStore["replace"]>> {
      const { account, id, status } = endpoint;
      const before = find.get(account, id);
      if (before === undefined) return "unknown";
      if (Number(update.run(...valuesOf(endpoint)).changes) === 0) return "changed";
      health.writeChanged();
      if (status === "enabled" && text(before, "status") === "disabled") beginAnew.run(id);
      queues.wake(id);
      return "replaced";
    },
    find(account: string, id: string): KeptEndpoint | null {
      const row = find.get(account, id);
      return row === undefined ? null : toKept(row);
    },
    list: (account: string): readonly KeptEndpoint[] => list.all(account).map(toKept),
    remove(account: string, id: string): boolean {
      health.writeChanged();
      if (Number(remove.run(account, id).changes) === 0) return false;
      queues.wake(id);
      return true;
    },
    /** Accounts that have endpoints, and how many. */
    counts: (): readonly (readonly [string, number])[] =>
      counts.all().map((row) => [text(row, "account"), integer(row, "endpoints")] as const),
  };
}

/** In the order of the parameters: account, id, then the columns. */
function valuesOf(endpoint: EndpointRecord) {
  const { account, id, url, description, events, status, disabledReason, maxInFlight, secrets } = endpoint;
  const { version, createdAtMs, updatedAtMs } = endpoint;
  const texts = [url, description, JSON.stringify(events), status, disabledReason] as const;
  return [account, id, ...texts, maxInFlight, JSON.stringify(secrets), version, createdAtMs, updatedAtMs] as const;
}

function toKept(row: SqlRow): KeptEndpoint {
  return { record: toEndpoint(row), health: toHealth(row) };
}

function toEndpoint(row: SqlRow): EndpointRecord {
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    url: text(row, "url"),
    description: text(row, "description"),
    events: JSON.parse(text(row, "events_json")) as EventType[],
    status: text(row, "status") === "enabled" ? "enabled" : "disabled",
    disabledReason: textOrNull(row, "disabled_reason") as EndpointRecord["disabledReason"],
    maxInFlight: integer(row, "max_in_flight"),
    secrets: JSON.parse(text(row, "secrets_json")) as EndpointSecret[],
    version: integer(row, "version"),
    createdAtMs: integer(row, "created_at_ms"),
    updatedAtMs: integer(row, "updated_at_ms"),
  };
}
