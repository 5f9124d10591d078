import type { AuditActor, AuditPage, AuditRecord } from "../../domain/access/audit.js";
import { integer, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";

/** Audit records: the verbs of AuditLog, synchronous, each one step. */
export function createAuditRows(db: SqliteDatabase) {
  const append = db.prepare(
    `INSERT INTO audit (id, at_ms, actor_kind, actor_id, address, action, target, result, details_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const page = db.prepare(
    `SELECT * FROM audit WHERE ?1 IS NULL OR (at_ms, id) < (?1, ?2) ORDER BY at_ms DESC, id DESC LIMIT ?3`,
  );
  return {
    append(record: AuditRecord): void {
      const { id, atMs, actor, address, action, target, result, details } = record;
      append.run(id, atMs, actor.kind, actor.id, address, action, target, result, JSON.stringify(details));
    },
    list(request: { limit: number; after: string | null }): AuditPage {
      const place = request.after === null ? null : parseCursor(request.after);
      // One more than asked for tells whether there is a next page.
      const rows = page.all(place?.atMs ?? null, place?.id ?? null, request.limit + 1);
      const records = rows.slice(0, request.limit).map(toRecord);
      const last = records.at(-1);
      return { records, next: last !== undefined && rows.length > request.limit ? `${last.atMs}:${last.id}` : null };
    },
  };
}

/** A text that was never a cursor is the start. */
function parseCursor(cursor: string): { readonly atMs: number; readonly id: string } | null {
  const [, atMs, id] = /^(\d{1,16}):(.{1,64})$/.exec(cursor) ?? [];
  return atMs === undefined || id === undefined ? null : { atMs: Number(atMs), id };
}

function toRecord(row: SqlRow): AuditRecord {
  return {
    id: text(row, "id"),
    atMs: integer(row, "at_ms"),
    actor: { kind: text(row, "actor_kind") as AuditActor["kind"], id: text(row, "actor_id") },
    address: text(row, "address"),
    action: text(row, "action"),
    target: text(row, "target"),
    result: text(row, "result"),
    details: JSON.parse(text(row, "details_json")) as Record<string, string>,
  };
}
