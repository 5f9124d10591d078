import {
  anyError,
  parseRequestCursor,
  type RequestCursor,
  type RequestLogEntry,
  type RequestLogPage,
  type RequestLogQuery,
  type RequestLogStore,
  type RequestRecord,
  requestCursorOf,
} from "../../domain/request-log/request-log-store.js";
import { integer, type SqliteDatabase, type SqlRow, type SqlValue, text, textOrNull } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

/** Maximum number of records that one read examines, in about a millisecond. */
const examinedMax = 5_000;

/** A record as values of columns, which are cheaper to copy between the threads than nested objects. */
type RecordRow = readonly [
  id: string,
  receivedAtMs: number,
  account: string,
  keyId: string | null,
  model: string | null,
  code: string,
  record: string,
  content: string | null,
];

/** `?1` to `?6` bound arrivals: from, to, and the exclusive cursor; `?5`, `?6` the last one that is examined. */
const range = "received_at_ms >= ?1 AND received_at_ms < ?2 AND (received_at_ms, id) < (?3, ?4)";

/** The request log in the database. Numbers of rows rise by one in the order of the appends. */
export function createRequestLogVerbs(db: SqliteDatabase) {
  const append = db.prepare(
    `INSERT OR IGNORE INTO request_logs (id, received_at_ms, account, key_id, model, code, record_json, content_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const newest = db.prepare("SELECT coalesce(max(number), 0) AS number FROM request_logs");
  const oldest = db.prepare("SELECT coalesce(min(number), 0) AS number FROM request_logs");
  const remove = db.prepare("DELETE FROM request_logs WHERE number < ?");
  const one = db.prepare("SELECT record_json, content_json FROM request_logs WHERE id = ?");
  const after = db.prepare("SELECT number, record_json FROM request_logs WHERE number > ? ORDER BY number LIMIT ?");
  const lastExamined = db.prepare(
    `SELECT received_at_ms, id FROM request_logs INDEXED BY request_logs_searched WHERE ${range}
     ORDER BY received_at_ms DESC, id DESC LIMIT 1 OFFSET ${examinedMax - 1}`,
  );
  const matches = db.prepare(
    `SELECT number, received_at_ms, id FROM request_logs INDEXED BY request_logs_searched
     WHERE ${range} AND (received_at_ms, id) >= (?5, ?6)
       AND (?7 IS NULL OR model = ?7) AND (?8 IS NULL OR key_id = ?8) AND (?9 IS NULL OR account = ?9)
       AND (?10 IS NULL OR code = ?10 OR (?10 = '${anyError}' AND code <> 'ok'))
     ORDER BY received_at_ms DESC, id DESC LIMIT ?11`,
  );
  const ofNumber = db.prepare("SELECT record_json FROM request_logs WHERE number = ?");
  const recordOf = (row: SqlRow): RequestRecord => JSON.parse(text(row, "record_json")) as RequestRecord;
  const numberOf = (row: SqlRow | undefined): number => (row === undefined ? 0 : integer(row, "number"));
  const trim = (keep: number, max: number): number => {
    const first = numberOf(oldest.get());
    const surplus = numberOf(newest.get()) - keep - first + 1;
    return first === 0 || surplus <= 0 ? 0 : Number(remove.run(first + Math.min(surplus, max)).changes);
  };
  return {
    reads: {
      getRequestLog(id: string): RequestLogEntry | null {
        const row = one.get(id);
        if (row === undefined) return null;
        const content = textOrNull(row, "content_json");
        return { record: recordOf(row), content: content === null ? null : JSON.parse(content) };
      },
      newestRequestLog: (): number => numberOf(newest.get()),
      requestLogsAfter(number: number, limit: number) {
        const rows = after.all(number, limit);
        const last = rows.at(-1);
        return { records: rows.map(recordOf), last: last === undefined ? number : numberOf(last) };
      },
      listRequestLogs({ filter, limit, after }: RequestLogQuery): RequestLogPage {
        const { model, keyId, account, code, fromMs, toMs } = filter;
        const { atMs, id } = (after === null ? null : parseRequestCursor(after)) ?? beforeAll;
        const bounds: SqlValue[] = [fromMs ?? 0, toMs ?? Number.MAX_SAFE_INTEGER, atMs, id];
        const end = lastExamined.get(...bounds);
        const until = end === undefined ? null : positionOf(end);
        // One more than requested shows whether there is a next page.
        const rows = matches.all(...bounds, until?.atMs ?? 0, until?.id ?? "", model, keyId, account, code, limit + 1);
        const found = rows.slice(0, limit);
        const last = rows.length > limit ? found.at(-1) : undefined;
        const next = last === undefined ? until : positionOf(last);
        return {
          records: found.flatMap((row) => ofNumber.all(numberOf(row)).map(recordOf)),
          next: next === null ? null : requestCursorOf(next),
        };
      },
    },
    writes: {
      appendRequestLogs(rows: readonly RecordRow[], keep: number): void {
        for (const row of rows) append.run(...row);
        // Removes up to twice as many records as were added, so that a reduced maximum is reached step by step.
        trim(keep, 2 * rows.length);
      },
      trimRequestLogs: trim,
    },
  };
}

/** Position before the newest record. */
const beforeAll: RequestCursor = { atMs: Number.MAX_SAFE_INTEGER, id: "" };

function positionOf(row: SqlRow): RequestCursor {
  return { atMs: integer(row, "received_at_ms"), id: text(row, "id") };
}

/** The request log on a link to the database. A power cut can lose the last records, a kill of the process cannot. */
export function createRequestLogStore(link: StoreLink<ReturnType<typeof createRequestLogVerbs>>): RequestLogStore {
  return {
    append: (entries, keep) => link.writeUnsynced("appendRequestLogs", entries.map(toRow), keep),
    get: (id) => link.read("getRequestLog", id),
    list: (query) => link.scan("listRequestLogs", query),
    appendedAfter: (after, limit) => link.read("requestLogsAfter", after, limit),
    newest: () => link.read("newestRequestLog"),
    trim: (keep, max) => link.writeUnsynced("trimRequestLogs", keep, max),
  };
}

function toRow({ record, content }: RequestLogEntry): RecordRow {
  const { id, receivedAtMs, account, keyId, model, code } = record;
  const contentText = content === null ? null : JSON.stringify(content);
  return [id, receivedAtMs, account, keyId, model, code, JSON.stringify(record), contentText];
}
