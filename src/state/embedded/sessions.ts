import type { SessionRecord, SessionStore } from "../../domain/access/sessions.js";
import type { StateChange } from "../../domain/call/ports.js";
import { columnsOf, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

const listedMax = 1_000;
const columns = columnsOf<SessionRecord>(
  "id, token_hash, user, role, created_at_ms, last_seen_at_ms, expires_at_ms, address, user_agent",
);

/** Dashboard sessions in the database. */
export function createSessionVerbs(db: SqliteDatabase) {
  const insert = db.prepare(`INSERT INTO sessions (${columns.names}) VALUES (${columns.placeholders})`);
  const byHash = db.prepare("SELECT * FROM sessions WHERE token_hash = ?");
  const touch = db.prepare("UPDATE sessions SET last_seen_at_ms = ?, expires_at_ms = ? WHERE id = ?");
  const list = db.prepare(
    `SELECT * FROM sessions WHERE expires_at_ms > ? ORDER BY created_at_ms DESC, id DESC LIMIT ${listedMax}`,
  );
  const remove = db.prepare("DELETE FROM sessions WHERE id = ?");
  const removeOthers = db.prepare("DELETE FROM sessions WHERE user = ? AND id IS NOT ? RETURNING id");
  return {
    reads: {
      findSession(tokenHash: string): SessionRecord | null {
        const row = byHash.get(tokenHash);
        return row === undefined ? null : toSession(row);
      },
      listSessions: (nowMs: number): readonly SessionRecord[] => list.all(nowMs).map(toSession),
    },
    writes: {
      insertSession(session: SessionRecord): void {
        insert.run(...columns.values(session));
      },
      /** Returns false if the session no longer exists. */
      touchSession: (id: string, lastSeenAtMs: number, expiresAtMs: number): boolean =>
        Number(touch.run(lastSeenAtMs, expiresAtMs, id).changes) === 1,
      removeSession: (id: string): boolean => Number(remove.run(id).changes) === 1,
      /** Returns the ids of the removed sessions. */
      removeOtherSessions: (user: string, keepId: string | null): readonly string[] =>
        removeOthers.all(user, keepId).map((row) => text(row, "id")),
    },
  };
}

export function createSessionStore(
  link: StoreLink<ReturnType<typeof createSessionVerbs>>,
  notify: (change: StateChange) => void,
): SessionStore {
  const changed = (id: string): void => notify({ kind: "session", id });
  return {
    async insert(session) {
      await link.write("insertSession", session);
      changed(session.id);
    },
    findByHash: (tokenHash) => link.read("findSession", tokenHash),
    async touch(id, lastSeenAtMs, expiresAtMs) {
      if (await link.write("touchSession", id, lastSeenAtMs, expiresAtMs)) changed(id);
    },
    list: (nowMs) => link.read("listSessions", nowMs),
    async remove(id) {
      const isRemoved = await link.write("removeSession", id);
      if (isRemoved) changed(id);
      return isRemoved;
    },
    async removeOthers(user, keepId) {
      const removed = await link.write("removeOtherSessions", user, keepId);
      for (const id of removed) changed(id);
      return removed.length;
    },
  };
}

function toSession(row: SqlRow): SessionRecord {
  const session = columns.read(row);
  // An unknown role, as in a damaged row, counts as `viewer`, which has fewer rights.
  return { ...session, role: session.role === "admin" ? "admin" : "viewer" };
}
