import {
  type ApiKeyPage,
  type ApiKeyRecord,
  cursorOf,
  type KeyChange,
  type KeyCursor,
  type KeyStep,
  looksOf,
  pageOfStep,
  parseCursor,
} from "../../domain/access/key-store.js";
import { integer, integerOrNull, type SqliteDatabase, type SqlRow, type SqlValue, text } from "./database/sqlite.js";
import { toRateLimits } from "./limits.js";

const columns =
  "id, name, account, scope, hash, prefix, last4, models_json, requests_per_minute, tokens_per_minute, concurrency, " +
  "created_at_ms, created_by, expires_at_ms, revoked_at_ms, last_used_at_ms";
const placeholders = columns.replace(/[^,]+/g, "?");

/** API keys in the database: the verbs of KeyStore, synchronous, each one step. */
export function createKeyRows(db: SqliteDatabase) {
  const byHash = db.prepare(`SELECT ${columns} FROM api_keys WHERE hash = ?`);
  const byId = db.prepare(`SELECT ${columns} FROM api_keys WHERE id = ?`);
  const insert = db.prepare(`INSERT INTO api_keys (${columns}) VALUES (${placeholders})`);
  const insertFirst = db.prepare(
    `INSERT INTO api_keys (${columns}) SELECT ${placeholders} WHERE NOT EXISTS (SELECT 1 FROM api_keys)`,
  );
  const looked = `SELECT created_at_ms, id, account, name, prefix, last4, revoked_at_ms, expires_at_ms FROM api_keys
     WHERE (?1 IS NULL OR account = ?1) AND (?2 IS NULL OR (created_at_ms, id) < (?2, ?3))
     ORDER BY created_at_ms DESC, id DESC`;
  // The last one that a step looks at, and the one that follows it.
  const border = db.prepare(`SELECT created_at_ms, id FROM (${looked}) LIMIT 2 OFFSET ?4 - 1`);
  const sieved = db.prepare(
    `SELECT ${columns} FROM api_keys WHERE id IN (SELECT id FROM (${looked} LIMIT ?4)
     WHERE (?5 IS NULL OR instr(lower(name), ?5) OR instr(account, ?5) OR instr(lower(id), ?5)
         OR instr(lower(prefix), ?5) OR instr(lower(last4), ?5))
       AND (?6 IS NULL OR ?6 = iif(revoked_at_ms IS NOT NULL, 'revoked', iif(expires_at_ms <= ?7, 'expired', 'active'))))
     ORDER BY created_at_ms DESC, id DESC`,
  );
  const revoke = db.prepare(
    `UPDATE api_keys SET revoked_at_ms = coalesce(revoked_at_ms, ?) WHERE id = ? RETURNING ${columns}`,
  );
  const change = db.prepare(
    `UPDATE api_keys SET name = ?, models_json = ?, requests_per_minute = ?, tokens_per_minute = ?, concurrency = ?,
       expires_at_ms = ? WHERE id = ? RETURNING ${columns}`,
  );
  const shorten = db.prepare(
    `UPDATE api_keys SET expires_at_ms = min(coalesce(expires_at_ms, ?1), ?1) WHERE id = ?2 AND revoked_at_ms IS NULL`,
  );
  const touch = db.prepare("UPDATE api_keys SET last_used_at_ms = max(coalesce(last_used_at_ms, 0), ?) WHERE id = ?");

  const find = (id: string): ApiKeyRecord | null => recordOrNull(byId.get(id));
  return {
    find,
    findByHash: (hash: string): ApiKeyRecord | null => recordOrNull(byHash.get(hash)),
    insert(record: ApiKeyRecord): void {
      insert.run(...toValues(record));
    },
    insertFirst(record: ApiKeyRecord): boolean {
      return Number(insertFirst.run(...toValues(record)).changes) === 1;
    },
    list(step: KeyStep): ApiKeyPage {
      const place = step.after === null ? null : parseCursor(step.after);
      const looks = looksOf(step);
      const { account, search, state, nowMs } = step.filter;
      const range = [account, place?.createdAtMs ?? null, place?.id ?? null, looks];
      const found = sieved.all(...range, search, state, nowMs).map(toRecord);
      const [last, following] = border.all(...range);
      return pageOfStep(step, found, last === undefined || following === undefined ? null : cursorOf(toPlace(last)));
    },
    revoke: (id: string, atMs: number): ApiKeyRecord | null => recordOrNull(revoke.get(atMs, id)),
    update(id: string, wanted: KeyChange): ApiKeyRecord | null {
      const before = find(id);
      if (before === null) return null;
      const { name, models, limits, expiresAtMs } = { ...before, ...wanted };
      const { requestsPerMinute, tokensPerMinute, concurrency } = limits;
      const values = [name, JSON.stringify(models), requestsPerMinute, tokensPerMinute, concurrency, expiresAtMs, id];
      return recordOrNull(change.get(...values));
    },
    rotate(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): boolean {
      if (Number(shorten.run(oldExpiresAtMs, id).changes) === 0) return false;
      insert.run(...toValues(successor));
      return true;
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
    record.limits.requestsPerMinute,
    record.limits.tokensPerMinute,
    record.limits.concurrency,
    record.createdAtMs,
    record.createdBy,
    record.expiresAtMs,
    record.revokedAtMs,
    record.lastUsedAtMs,
  ];
}

function toPlace(row: SqlRow): KeyCursor {
  return { createdAtMs: integer(row, "created_at_ms"), id: text(row, "id") };
}

function recordOrNull(row: SqlRow | undefined): ApiKeyRecord | null {
  return row === undefined ? null : toRecord(row);
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
    limits: toRateLimits(row),
    createdAtMs: integer(row, "created_at_ms"),
    createdBy: text(row, "created_by"),
    expiresAtMs: integerOrNull(row, "expires_at_ms"),
    revokedAtMs: integerOrNull(row, "revoked_at_ms"),
    lastUsedAtMs: integerOrNull(row, "last_used_at_ms"),
  };
}
