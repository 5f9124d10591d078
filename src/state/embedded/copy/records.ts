import type { AuditRecord } from "../../../domain/access/audit.js";
import type { ApiKeyRecord } from "../../../domain/access/key-store.js";
import { type EventType, type PeriodKind, periodAt, type UsageScope } from "../../../domain/events/events.js";
import type { UsageRow } from "../../../domain/metering/usage-store.js";
import type { StoredResponse } from "../../../domain/responses/response-store.js";
import type {
  CopiedDelivery,
  CopiedEvent,
  CopiedKind,
  CopiedModel,
  CopiedPeriodSum,
  CopiedRecords,
  CopiedSetting,
  FiredThreshold,
  NumberedRequest,
} from "../../../domain/service/state-copy.js";
import type { Attempt } from "../../../domain/webhooks/delivery.js";
import type { KeptEndpoint } from "../../../domain/webhooks/endpoint-store.js";
import {
  columnsOf,
  integer,
  integerOrNull,
  readExactly,
  type SqliteDatabase,
  type SqlRow,
  type SqlValue,
  text,
  textOrNull,
} from "../database/sqlite.js";
import { toSums } from "../usage.js";
import { createVerbs } from "../verbs.js";

/** Maximum number of rows that one read holds in memory, by the size of the rows. */
const rowsMax = {
  /** Rows of up to a kilobyte. */
  small: 1_000,
  /** Rows of up to 60 kB with payload and 20 attempts, usually 2 kB. */
  delivery: 200,
  /** Rows of up to 1.4 MB. */
  response: 8,
} as const;

type Readers = { readonly [K in CopiedKind]: () => Iterable<CopiedRecords[K]> };

/** Reads all records of each kind in batches, in the order that `CopiedRecords` names. */
export function createSnapshotReaders(db: SqliteDatabase): Readers {
  const { reads } = createVerbs(db);
  const { settings, models_seen, events, deliveries, responses, request_log } = createRowReaders(db);
  return {
    settings,
    *api_keys(): Iterable<ApiKeyRecord> {
      const filter = { account: null, search: null, state: null, nowMs: 0 };
      for (let after: string | null = null; ; ) {
        const page = reads.listKeys({ filter, limit: rowsMax.small, after });
        yield* page.records;
        if (page.next === null) return;
        after = page.next;
      }
    },
    limits: reads.listLimits,
    thresholds: reads.listThresholds,
    upstreams: reads.listUpstreams,
    drains: reads.listDrains,
    models_seen,
    *endpoints(): Iterable<KeptEndpoint> {
      for (const [account] of reads.endpointCounts()) yield* reads.listEndpoints(account);
    },
    events,
    deliveries,
    usage_hours: () => usageRows(db, "usage_hours"),
    usage_days: () => usageRows(db, "usage_days"),
    period_sums: () => periodSums(db),
    *fired_thresholds(): Iterable<FiredThreshold> {
      const thresholds = new Map(reads.listThresholds().map((threshold) => [threshold.id, threshold]));
      for (const mark of marks(db)) {
        const [id = "", value = "", name = ""] = mark.split(":");
        const threshold = thresholds.get(id);
        // Marks of removed thresholds are not copied, because they have no effect.
        if (threshold === undefined) continue;
        const [kind, start] = name.length === 10 ? (["day", name] as const) : (["month", `${name}-01`] as const);
        yield { threshold, value, period: periodAt(kind, Date.parse(start)) };
      }
    },
    *audit(): Iterable<AuditRecord> {
      for (let after: string | null = null; ; ) {
        const page = reads.listAudit({ limit: rowsMax.small, after });
        yield* page.records;
        if (page.next === null) return;
        after = page.next;
      }
    },
    responses,
    request_log,
  };
}

/**
 * Reads a table in batches. `sql` selects the rows after a position; its parameters are that position and the maximum
 * number of rows.
 */
function* rowsOf(
  db: SqliteDatabase,
  sql: string,
  first: readonly SqlValue[],
  columns: readonly string[],
  max: number,
): Iterable<SqlRow> {
  const statement = readExactly(db.prepare(sql));
  for (let after: readonly SqlValue[] = first; ; ) {
    const rows = statement.all(...after, max);
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < max) return;
    after = columns.map((column) => last[column] ?? null);
  }
}

const responseColumns = columnsOf<StoredResponse>("account, id, created_at_ms, previous_id, items, sealed");

function createRowReaders(db: SqliteDatabase) {
  const byNumber = (sql: string, max: number) => rowsOf(db, `${sql} ORDER BY number LIMIT ?`, [0], ["number"], max);
  return {
    *settings(): Iterable<CopiedSetting> {
      for (const row of db.prepare("SELECT name, value, version FROM settings ORDER BY name").all()) {
        yield { name: text(row, "name"), value: text(row, "value"), version: integer(row, "version") };
      }
    },
    *models_seen(): Iterable<CopiedModel> {
      const sql = "SELECT id, first_seen_at_ms FROM models_seen WHERE id > ? ORDER BY id LIMIT ?";
      for (const row of rowsOf(db, sql, [""], ["id"], rowsMax.small)) {
        yield { id: text(row, "id"), firstSeenAtMs: integer(row, "first_seen_at_ms") };
      }
    },
    *events(): Iterable<CopiedEvent> {
      const sql = `SELECT number, account, id, type, at_ms, receivers_json, body FROM events
        WHERE receivers_json IS NOT NULL AND number > ?`;
      for (const row of byNumber(sql, rowsMax.delivery)) yield toEvent(row);
    },
    *deliveries(): Iterable<CopiedDelivery> {
      const shared = `FROM deliveries AS other INDEXED BY deliveries_of_event
        WHERE other.event_number = deliveries.event_number AND other.is_purged = 0`;
      const sql = `SELECT deliveries.*, events.body AS event_body,
          (SELECT status FROM endpoints WHERE endpoints.id = endpoint_id) AS endpoint_status,
          (SELECT count(*) ${shared}) AS sharers, (SELECT min(number) ${shared}) AS first_sharer
        FROM deliveries LEFT JOIN events ON events.number = event_number
        WHERE deliveries.number > ? ORDER BY deliveries.number LIMIT ?`;
      for (const row of rowsOf(db, sql, [0], ["number"], rowsMax.delivery)) yield toDelivery(row);
    },
    *responses(): Iterable<StoredResponse> {
      const sql = `SELECT number, ${responseColumns.names} FROM responses WHERE number > ?`;
      for (const row of byNumber(sql, rowsMax.response)) {
        const { createdAtMs, items, ...response } = responseColumns.read(row);
        yield { ...response, createdAtMs: Number(createdAtMs), items: Number(items) };
      }
    },
    *request_log(): Iterable<NumberedRequest> {
      const sql = "SELECT number, record_json, content_json FROM request_logs WHERE number > ?";
      for (const row of byNumber(sql, rowsMax.delivery)) {
        const content = textOrNull(row, "content_json");
        const record = JSON.parse(text(row, "record_json"));
        yield { number: integer(row, "number"), record, content: content === null ? null : JSON.parse(content) };
      }
    },
  };
}

function toEvent(row: SqlRow): CopiedEvent {
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    type: text(row, "type") as EventType,
    atMs: integer(row, "at_ms"),
    endpointIds: JSON.parse(text(row, "receivers_json")),
    body: text(row, "body"),
  };
}

function toDelivery(row: SqlRow): CopiedDelivery {
  const isSet = (column: string): boolean => integer(row, column) === 1;
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    eventId: text(row, "event_id"),
    eventType: text(row, "event_type") as EventType,
    endpointId: text(row, "endpoint_id"),
    isEndpointEnabled: textOrNull(row, "endpoint_status") === "enabled",
    state: text(row, "state") as CopiedDelivery["state"],
    reason: textOrNull(row, "reason") as CopiedDelivery["reason"],
    createdAtMs: integer(row, "created_at_ms"),
    dueAtMs: integerOrNull(row, "due_at_ms"),
    endedAtMs: integerOrNull(row, "ended_at_ms"),
    attemptsMade: integer(row, "attempts_made"),
    retriesUsed: integer(row, "retries_used"),
    isManual: isSet("is_manual"),
    by: text(row, "asked_by"),
    isSingle: isSet("is_single"),
    replayId: textOrNull(row, "replay_id"),
    isPurged: isSet("is_purged"),
    attempts: JSON.parse(text(row, "attempts_json")) as readonly Attempt[],
    body: textOrNull(row, "event_body") ?? text(row, "body"),
    sharers: integer(row, "sharers"),
    isFirstSharer: row["number"] === row["first_sharer"],
  };
}

function* usageRows(db: SqliteDatabase, table: "usage_hours" | "usage_days"): Iterable<UsageRow> {
  const key = ["account", "start_ms", "key_id", "model", "operation"];
  const names = key.join(", ");
  const sql = `SELECT * FROM ${table} WHERE (${names}) > (?, ?, ?, ?, ?) ORDER BY ${names} LIMIT ?`;
  for (const row of rowsOf(db, sql, ["", 0, "", "", ""], key, rowsMax.small)) {
    const [keyId, operation] = [text(row, "key_id"), text(row, "operation")];
    yield {
      account: text(row, "account"),
      startMs: integer(row, "start_ms"),
      keyId: keyId === "" ? null : keyId,
      model: text(row, "model"),
      operation: operation === "" ? null : operation,
      ...toSums(row),
    };
  }
}

function* periodSums(db: SqliteDatabase): Iterable<CopiedPeriodSum> {
  const key = ["account", "scope_kind", "scope_id", "period_kind", "start_ms"];
  const names = key.join(", ");
  const sql = `SELECT * FROM period_sums WHERE (${names}) > (?, ?, ?, ?, ?) ORDER BY ${names} LIMIT ?`;
  for (const row of rowsOf(db, sql, ["", "", "", "", 0], key, rowsMax.small)) {
    yield {
      account: text(row, "account"),
      scope: { kind: text(row, "scope_kind") as UsageScope["kind"], id: text(row, "scope_id") },
      period: periodAt(text(row, "period_kind") as PeriodKind, integer(row, "start_ms")),
      sums: toSums(row),
    };
  }
}

function* marks(db: SqliteDatabase): Iterable<string> {
  const sql = "SELECT mark FROM crossings WHERE mark > ? ORDER BY mark LIMIT ?";
  for (const row of rowsOf(db, sql, [""], ["mark"], rowsMax.small)) yield text(row, "mark");
}
