import { cursorOf, parseCursor } from "../../domain/access/key-order.js";
import type { ApiKeyPage, ApiKeyRecord } from "../../domain/access/key-store.js";
import type { SqliteDatabase, SqlRow, SqlValue } from "./sqlite-binding.js";

const columns =
  "id, name, account, scope, hash, prefix, last4, models_json, created_at_ms, created_by, expires_at_ms, revoked_at_ms, last_used_at_ms";
const placeholders = columns.replace(/[^,]+/g, "?");

/** API keys in the database: the verbs of KeyStore, synchronous, each one step. */
export function createKeyRows(db: SqliteDatabase) {
  const byHash = db.prepare(`SELECT ${columns} FROM api_keys WHERE hash = ?`);
  const insert = db.prepare(`INSERT INTO api_keys (${columns}) VALUES (${placeholders})`);
  const insertFirst = db.prepare(
    `INSERT INTO api_keys (${columns}) SELECT ${placeholders} WHERE NOT EXISTS (SELECT 1 FROM api_keys)`,
  );
  const page = db.prepare(
    `SELECT ${columns} FROM api_keys
     WHERE (?1 IS NULL OR account = ?1) AND (?2 IS NULL OR (created_at_ms, id) < (?2, ?3))
     ORDER BY created_at_ms DESC, id DESC LIMIT ?4`,
  );
  const revoke = db.prepare(
    `UPDATE api_keys SET revoked_at_ms = coalesce(revoked_at_ms, ?) WHERE id = ? RETURNING ${columns}`,
  );
  const touch = db.prepare("UPDATE api_keys SET last_used_at_ms = max(coalesce(last_used_at_ms, 0), ?) WHERE id = ?");

  return {
    findByHash(hash: string): ApiKeyRecord | null {
      const row = byHash.get(hash);
      return row === undefined ? null : toRecord(row);
    },
    insert(record: ApiKeyRecord): void {
      insert.run(...toValues(record));
    },
    insertFirst(record: ApiKeyRecord): boolean {
      return Number(insertFirst.run(...toValues(record)).changes) === 1;
    },
    list(request: { account: string | null; limit: number; after: string | null }): ApiKeyPage {
      const place = request.after === null ? null : parseCursor(request.after);
      // One more than asked for tells whether there is a next page.
      const rows = page.all(request.account, place?.createdAtMs ?? null, place?.id ?? null, request.limit + 1);
      const records = rows.slice(0, request.limit).map(toRecord);
      const last = records.at(-1);
      return { records, next: last !== undefined && rows.length > request.limit ? cursorOf(last) : null };
    },
    revoke(id: string, atMs: number): ApiKeyRecord | null {
      const row = revoke.get(atMs, id);
      return row === undefined ? null : toRecord(row);
    },
    touch(id: string, atMs: number): void {
      touch.run(atMs, id);
    },
  };
}

function toValues(record: ApiKeyRecord): SqlValue[] {
  return [
    record.id,
    record.name,
    record.account,
    record.scope,
    record.hash,
    record.prefix,
    record.last4,
    JSON.stringify(record.models),
    record.createdAtMs,
    record.createdBy,
    record.expiresAtMs,
    record.revokedAtMs,
    record.lastUsedAtMs,
  ];
}

function toRecord(row: SqlRow): ApiKeyRecord {
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    account: text(row, "account"),
    // Anything else than the wider scope, a damaged row included, is the narrower one.
    scope: row["scope"] === "read_write" ? "read_write" : "read",
    hash: text(row, "hash"),
    prefix: text(row, "prefix"),
    last4: text(row, "last4"),
    models: JSON.parse(text(row, "models_json")) as string[],
    createdAtMs: Number(row["created_at_ms"]),
    createdBy: text(row, "created_by"),
    expiresAtMs: timeOrNull(row, "expires_at_ms"),
    revokedAtMs: timeOrNull(row, "revoked_at_ms"),
    lastUsedAtMs: timeOrNull(row, "last_used_at_ms"),
  };
}

function text(row: SqlRow, column: string): string {
  return String(row[column]);
}

function timeOrNull(row: SqlRow, column: string): number | null {
  const value = row[column] ?? null;
  return value === null ? null : Number(value);
}
