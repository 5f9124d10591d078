import type { SessionRecord, SessionStore } from "../../domain/access/sessions.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient, unavailable } from "./connection/client.js";
import { type DocumentKeys, Documents, documentKeys } from "./documents.js";

const findDocument = loadScript("find-document");
const insertSession = loadScript("insert-session");
const removeSessions = loadScript("remove-sessions");

const form = 1;
const sessionsMax = 10_000;
const listMax = 1_000;

export class RedisSessionStore implements SessionStore {
  readonly #client: RedisClient;
  readonly #feed: RedisChangeFeed;
  readonly #keys: DocumentKeys;
  readonly #documents: Documents;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    this.#client = client;
    this.#feed = feed;
    this.#keys = documentKeys(client.prefix);
    const change = (id: string) => ({ kind: "session", id }) as const;
    this.#documents = new Documents(client, feed, { key: this.#keys.sessions, max: sessionsMax, change });
  }

  async insert(session: SessionRecord): Promise<void> {
    const { sessions, sessionHashes } = this.#keys;
    const { id, tokenHash } = session;
    const outcome = await this.#feed.telling(
      [{ kind: "session", id }],
      (messages) =>
        this.#client.run(
          insertSession,
          [sessions, sessionHashes],
          [id, tokenHash, sessionText(session), sessionsMax, this.#feed.channel, ...messages],
        ),
      (what) => what === "done",
    );
    if (outcome === "taken") throw new ServiceError("conflict", "A session with this id or token exists.");
    if (outcome === "full") throw unavailable(`it holds ${sessionsMax} sessions already, which is the most`);
  }

  async findByHash(tokenHash: string): Promise<SessionRecord | null> {
    const text = await this.#client.run(findDocument, [this.#keys.sessionHashes, this.#keys.sessions], [tokenHash]);
    return typeof text === "string" ? parseSession(text) : null;
  }

  async touch(id: string, lastSeenAtMs: number, expiresAtMs: number): Promise<void> {
    await this.#documents.change(id, (text) => sessionText({ ...parseSession(text), lastSeenAtMs, expiresAtMs }));
  }

  async list(nowMs: number): Promise<readonly SessionRecord[]> {
    const sessions = (await this.#all()).filter(({ expiresAtMs }) => expiresAtMs > nowMs);
    return sessions.sort(byNewest).slice(0, listMax);
  }

  async remove(id: string): Promise<boolean> {
    const text = await this.#documents.get(id);
    return text !== null && (await this.#remove([parseSession(text)])) === 1;
  }

  async removeOthers(user: string, keepId: string | null): Promise<number> {
    return this.#remove((await this.#all()).filter((session) => session.user === user && session.id !== keepId));
  }

  /** Removes at most `max` that have expired; how many. */
  async purge(nowMs: number, max: number): Promise<number> {
    return this.#remove((await this.#all()).filter(({ expiresAtMs }) => expiresAtMs <= nowMs).slice(0, max));
  }

  async #all(): Promise<SessionRecord[]> {
    return (await this.#documents.list()).map(parseSession);
  }

  async #remove(sessions: readonly SessionRecord[]): Promise<number> {
    if (sessions.length === 0) return 0;
    const { sessions: key, sessionHashes } = this.#keys;
    const removed = await this.#feed.telling(
      sessions.map(({ id }) => ({ kind: "session", id }) as const),
      (messages) => {
        const args = sessions.flatMap(({ id, tokenHash }, n) => [id, tokenHash, messages[n] ?? ""]);
        return this.#client.run(removeSessions, [key, sessionHashes], [this.#feed.channel, ...args]);
      },
      (count) => Number(count) > 0,
    );
    return Number(removed);
  }
}

function sessionText(session: SessionRecord): string {
  return JSON.stringify({ v: form, ...session });
}

function parseSession(text: string): SessionRecord {
  const { v: _form, ...session } = JSON.parse(text) as { v: number } & SessionRecord;
  return session;
}

function byNewest(a: SessionRecord, b: SessionRecord): number {
  return b.createdAtMs - a.createdAtMs || (a.id > b.id ? -1 : 1);
}
