import type { SessionRecord, SessionStore } from "../../domain/access/sessions.js";
import type { LocalChanges } from "../../domain/call/change-feed.js";
import { isFull, purgeMap } from "./bounded.js";

const sessionsMax = 10_000;
const listMax = 1_000;

export interface VolatileSessionStore extends SessionStore {
  /** Forgets at most `max` that have expired; how many. */
  purge(nowMs: number, max: number): number;
}

/** At most 10,000 sessions; one more is `storage_unavailable`. */
export function createVolatileSessionStore(changes: LocalChanges): VolatileSessionStore {
  const byId = new Map<string, SessionRecord>();
  const remove = (id: string): boolean => {
    if (!byId.delete(id)) return false;
    changes.tell({ kind: "session", id });
    return true;
  };
  return {
    async insert(session) {
      if (byId.size >= sessionsMax) throw isFull(sessionsMax, "sessions");
      byId.set(session.id, session);
      changes.tell({ kind: "session", id: session.id });
    },
    async findByHash(tokenHash) {
      for (const session of byId.values()) {
        if (session.tokenHash === tokenHash) return session;
      }
      return null;
    },
    async touch(id, lastSeenAtMs, expiresAtMs) {
      const session = byId.get(id);
      if (session !== undefined) byId.set(id, { ...session, lastSeenAtMs, expiresAtMs });
    },
    async list(nowMs) {
      return [...byId.values()]
        .filter(({ expiresAtMs }) => expiresAtMs > nowMs)
        .sort((a, b) => b.createdAtMs - a.createdAtMs)
        .slice(0, listMax);
    },
    async remove(id) {
      return remove(id);
    },
    async removeOthers(user, keepId) {
      const others = [...byId.values()].filter((session) => session.user === user && session.id !== keepId);
      return others.filter(({ id }) => remove(id)).length;
    },
    purge: (nowMs, max) => purgeMap(byId, max, ({ expiresAtMs }) => expiresAtMs <= nowMs),
  };
}
