import type { SessionRecord, SessionStore } from "../../domain/access/sessions.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient } from "./connection/client.js";
import { byCreation, createDocuments, documentKeys, findByDigest, fromDocument, toDocument } from "./documents.js";

const removeSessions = loadScript("remove-sessions");

const sessionsMax = 10_000;
const listMax = 1_000;

export function createRedisSessionStore(client: RedisClient, feed: RedisChangeFeed) {
  const { sessions: key, sessionHashes } = documentKeys;
  const change = (id: string) => ({ kind: "session", id }) as const;
  const documents = createDocuments(client, feed, { key, max: sessionsMax, change });

  const all = async (): Promise<SessionRecord[]> =>
    (await documents.list()).map((text) => fromDocument<SessionRecord>(text));
  const remove = async (sessions: readonly SessionRecord[]): Promise<number> => {
    if (sessions.length === 0) return 0;
    const removed = await feed.publishing(
      sessions.map(({ id }) => change(id)),
      (messages) => {
        const args = sessions.flatMap(({ id, tokenHash }, n) => [id, tokenHash, messages[n] ?? ""]);
        return client.run(removeSessions, [key, sessionHashes], [feed.channel, ...args]);
      },
      (count) => Number(count) > 0,
    );
    return Number(removed);
  };

  const store: SessionStore = {
    async insert(session) {
      const secret = { index: sessionHashes, digest: session.tokenHash };
      const isNew = await documents.insert(session.id, toDocument(session), secret);
      if (!isNew) throw new ServiceError("conflict", "A session with this id or token exists.");
    },
    async findByHash(tokenHash) {
      const text = await findByDigest(client, sessionHashes, key, tokenHash);
      return text === null ? null : fromDocument<SessionRecord>(text);
    },
    async touch(id, lastSeenAtMs, expiresAtMs) {
      await documents.change(id, (text) =>
        toDocument({ ...fromDocument<SessionRecord>(text), lastSeenAtMs, expiresAtMs }),
      );
    },
    async list(nowMs) {
      const sessions = (await all()).filter(({ expiresAtMs }) => expiresAtMs > nowMs);
      return sessions.sort((a, b) => byCreation(b, a)).slice(0, listMax);
    },
    async remove(id) {
      const text = await documents.get(id);
      return text !== null && (await remove([fromDocument<SessionRecord>(text)])) === 1;
    },
    removeOthers: async (user, keepId) =>
      remove((await all()).filter((session) => session.user === user && session.id !== keepId)),
  };
  return {
    store,
    /** Removes at most `max` expired sessions and returns their number. */
    purge: async (nowMs: number, max: number): Promise<number> =>
      remove((await all()).filter(({ expiresAtMs }) => expiresAtMs <= nowMs).slice(0, max)),
  };
}
