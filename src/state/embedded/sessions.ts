import type { SessionRecord } from "../../domain/access/sessions.js";
import { integer, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";

const listedMax = 1_000;

/** Dashboard sessions: the verbs of SessionStore, synchronous, each one step. */
export function createSessionRows(db: SqliteDatabase) {
  const insert = db.prepare(
    `INSERT INTO sessions (id, token_hash, user, role, created_at_ms, last_seen_at_ms, expires_at_ms, address, user_agent)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const byHash = db.prepare("SELECT * FROM sessions WHERE token_hash = ?");
  const touch = db.prepare("UPDATE sessions SET last_seen_at_ms = ?, expires_at_ms = ? WHERE id = ?");
  const list = db.prepare(
    `SELECT * FROM sessions WHERE expires_at_ms > ? ORDER BY created_at_ms DESC, id DESC LIMIT ${listedMax}`,
  );
  const remove = db.prepare("DELETE FROM sessions WHERE id = ?");
  const removeOthers = db.prepare("DELETE FROM sessions WHERE user = ? AND id IS NOT ? RETURNING id");
  return {
    insert(session: SessionRecord): void {
      insert.run(
        session.id,
        session.tokenHash,
        session.user,
        session.role,
        session.createdAtMs,
        session.lastSeenAtMs,
        session.expiresAtMs,
        session.address,
        session.userAgent,
      );
    },
    findByHash(tokenHash: string): SessionRecord | null {
      const row = byHash.get(tokenHash);
      return row === undefined ? null : toSession(row);
    },
    /** False: it is gone. */
    touch: (id: string, lastSeenAtMs: number, expiresAtMs: number): boolean =>
      Number(touch.run(lastSeenAtMs, expiresAtMs, id).changes) === 1,
    list: (nowMs: number): readonly SessionRecord[] => list.all(nowMs).map(toSession),
    remove: (id: string): boolean => Number(remove.run(id).changes) === 1,
    /** Ids of those that were removed. */
    removeOthers: (user: string, keepId: string | null): readonly string[] =>
      removeOthers.all(user, keepId).map((row) => text(row, "id")),
  };
}

function toSession(row: SqlRow): SessionRecord {
  return {
    id: text(row, "id"),
    tokenHash: text(row, "token_hash"),
    user: text(row, "user"),
    // Anything else than the wider role, a damaged row included, is the narrower one.
    role: row["role"] === "admin" ? "admin" : "viewer",
    createdAtMs: integer(row, "created_at_ms"),
    lastSeenAtMs: integer(row, "last_seen_at_ms"),
    expiresAtMs: integer(row, "expires_at_ms"),
    address: text(row, "address"),
    userAgent: text(row, "user_agent"),
  };
}
