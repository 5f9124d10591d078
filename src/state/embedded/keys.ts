import {
  type ApiKeyPage,
  type ApiKeyRecord,
  cursorOf,
  examinedCount,
  type KeyChange,
  type KeyStep,
  type KeyStore,
  type KeyUse,
  pageOfStep,
  parseCursor,
  storedPriority,
} from "../../domain/access/key-store.js";
import type { StateChange } from "../../domain/call/ports.js";
import type { KeyPriority } from "../../domain/call/principal.js";
import type { RateLimits } from "../../domain/call/rate-limits.js";
import { columnsOf, integer, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

const columns = columnsOf<Omit<ApiKeyRecord, "limits" | "priority"> & RateLimits & { readonly priority: KeyPriority }>(
  "id, name, account, scope, hash, prefix, last4, requests_per_minute, tokens_per_minute, concurrency, " +
    "created_at_ms, created_by, expires_at_ms, revoked_at_ms, last_used_at_ms, models_json, priority",
);

/** API keys in the database. */
export function createKeyVerbs(db: SqliteDatabase) {
  const { names, placeholders } = columns;
  const byHash = db.prepare(`SELECT ${names} FROM api_keys WHERE hash = ?`);
  const byId = db.prepare(`SELECT ${names} FROM api_keys WHERE id = ?`);
  const insert = db.prepare(`INSERT INTO api_keys (${names}) VALUES (${placeholders})`);
  const insertFirst = db.prepare(
    `INSERT INTO api_keys (${names}) SELECT ${placeholders} WHERE NOT EXISTS (SELECT 1 FROM api_keys)`,
  );
  const examined = `SELECT created_at_ms, id, account, name, prefix, last4, revoked_at_ms, expires_at_ms FROM api_keys
     WHERE (?1 IS NULL OR account = ?1) AND (?2 IS NULL OR (created_at_ms, id) < (?2, ?3))
     ORDER BY created_at_ms DESC, id DESC`;
  // The last key that a step examines, and the key after it.
  const border = db.prepare(`SELECT created_at_ms, id FROM (${examined}) LIMIT 2 OFFSET ?4 - 1`);
  const filtered = db.prepare(
    `SELECT ${names} FROM api_keys WHERE id IN (SELECT id FROM (${examined} LIMIT ?4)
     WHERE (?5 IS NULL OR instr(lower(name), ?5) OR instr(account, ?5) OR instr(lower(id), ?5)
         OR instr(lower(prefix), ?5) OR instr(lower(last4), ?5))
       AND (?6 IS NULL OR ?6 = iif(revoked_at_ms IS NOT NULL, 'revoked', iif(expires_at_ms <= ?7, 'expired', 'active'))))
     ORDER BY created_at_ms DESC, id DESC`,
  );
  const replace = db.prepare(`UPDATE api_keys SET (${names}) = (${placeholders}) WHERE id = ?`);
  const shorten = db.prepare(
    `UPDATE api_keys SET expires_at_ms = min(coalesce(expires_at_ms, ?1), ?1) WHERE id = ?2 AND revoked_at_ms IS NULL`,
  );
  const touch = db.prepare("UPDATE api_keys SET last_used_at_ms = max(coalesce(last_used_at_ms, 0), ?) WHERE id = ?");

  const find = (id: string): ApiKeyRecord | null => recordOrNull(byId.get(id));
  const change = (id: string, next: (before: ApiKeyRecord) => ApiKeyRecord): ApiKeyRecord | null => {
    const before = find(id);
    if (before === null) return null;
    const after = next(before);
    replace.run(...toValues(after), id);
    return after;
  };
  return {
    reads: {
      findKey: find,
      findKeyByHash: (hash: string): ApiKeyRecord | null => recordOrNull(byHash.get(hash)),
      listKeys(step: KeyStep): ApiKeyPage {
        const cursor = step.after === null ? null : parseCursor(step.after);
        const { account, search, state, nowMs } = step.filter;
        const range = [account, cursor?.createdAtMs ?? null, cursor?.id ?? null, examinedCount(step)];
        const found = filtered.all(...range, search, state, nowMs).map(toRecord);
        const [last, following] = border.all(...range);
        if (last === undefined || following === undefined) return pageOfStep(step, found, null);
        return pageOfStep(step, found, cursorOf({ createdAtMs: integer(last, "created_at_ms"), id: text(last, "id") }));
      },
    },
    writes: {
      insertKey(record: ApiKeyRecord): void {
        insert.run(...toValues(record));
      },
      insertFirstKey: (record: ApiKeyRecord): boolean => Number(insertFirst.run(...toValues(record)).changes) === 1,
      revokeKey: (id: string, atMs: number) =>
        change(id, (before) => ({ ...before, revokedAtMs: before.revokedAtMs ?? atMs })),
      updateKey: (id: string, wanted: KeyChange) => change(id, (before) => ({ ...before, ...wanted })),
      rotateKey(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): boolean {
        if (Number(shorten.run(oldExpiresAtMs, id).changes) === 0) return false;
        insert.run(...toValues(successor));
        return true;
      },
      touchKeys(uses: readonly KeyUse[]): void {
        for (const { id, atMs } of uses) touch.run(atMs, id);
      },
    },
  };
}

export function createKeyStore(
  link: StoreLink<ReturnType<typeof createKeyVerbs>>,
  notify: (change: StateChange) => void,
): KeyStore {
  const changed = (id: string): void => notify({ kind: "key", id });
  return {
    findByHash: (hash) => link.read("findKeyByHash", hash),
    find: (id) => link.read("findKey", id),
    async insert(record) {
      await link.write("insertKey", record);
      changed(record.id);
    },
    async insertFirst(record) {
      const isFirst = await link.write("insertFirstKey", record);
      if (isFirst) changed(record.id);
      return isFirst;
    },
    list: (page) => link.scan("listKeys", page),
    async revoke(id, atMs) {
      const record = await link.write("revokeKey", id, atMs);
      if (record !== null) changed(id);
      return record;
    },
    async update(id, change) {
      const record = await link.write("updateKey", id, change);
      if (record !== null) changed(id);
      return record;
    },
    async rotate(id, successor, oldExpiresAtMs) {
      const isRotated = await link.write("rotateKey", id, successor, oldExpiresAtMs);
      if (isRotated) for (const each of [id, successor.id]) changed(each);
      return isRotated;
    },
    touch: (uses) => link.write("touchKeys", uses),
  };
}

function toValues({ limits, priority = "default", ...record }: ApiKeyRecord) {
  return columns.values({ ...record, ...limits, priority });
}

function recordOrNull(row: SqlRow | undefined): ApiKeyRecord | null {
  return row === undefined ? null : toRecord(row);
}

function toRecord(row: SqlRow): ApiKeyRecord {
  const { requestsPerMinute, tokensPerMinute, concurrency, priority, ...record } = columns.read(row);
  return {
    ...record,
    // An unknown scope, as in a damaged row, counts as `read`, which allows less.
    scope: record.scope === "read_write" ? "read_write" : "read",
    limits: { requestsPerMinute, tokensPerMinute, concurrency },
    ...storedPriority(priority),
  };
}
