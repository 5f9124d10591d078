import { sha256Hex } from "../../lib/digest.js";
import type { IdSource, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";

/** A session ends when nobody used it for so long, and in any case at its total age (KEY-22). */
const sessionIdleMs = 12 * 3_600_000;
export const sessionAgeMs = 7 * 86_400_000;
/** How often the time of last use is written, at most. */
const touchEveryMs = 60_000;
/** Characters of a token: 43 of 62 hold 256 bits. */
const tokenChars = 43;
const tokenForm = /^[0-9A-Za-z]{43}$/;

export interface SessionsDeps {
  readonly sessions: SessionStore;
  /** The store's time. */
  readonly now: () => number;
  readonly ids: IdSource;
  readonly log: Logger;
}

export interface NewSession {
  readonly record: SessionRecord;
  /** For the cookie: shown to nobody, kept nowhere. */
  readonly token: string;
}

/** Sessions of the dashboard. Each request reads its session from the store, so one that is revoked is over everywhere. */
export class Sessions {
  readonly #deps: SessionsDeps;

  constructor(deps: SessionsDeps) {
    this.#deps = deps;
  }

  /** Whoever calls has checked the password or the set-up link. */
  async begin(user: string, from: { readonly address: string; readonly userAgent: string }): Promise<NewSession> {
    const { sessions, ids, now } = this.#deps;
    const token = ids.text("", tokenChars);
    const nowMs = now();
    const record: SessionRecord = {
      id: ids.text("ses_"),
      tokenHash: sha256Hex(token),
      user,
      role: "admin",
      createdAtMs: nowMs,
      lastSeenAtMs: nowMs,
      expiresAtMs: nowMs + sessionIdleMs,
      address: from.address,
      userAgent: from.userAgent,
    };
    await sessions.insert(record);
    return { record, token };
  }

  /** Rejects with `invalid_api_key` for a session that is over or never was. */
  async authenticate(token: string): Promise<Principal> {
    const record = tokenForm.test(token) ? await this.#deps.sessions.findByHash(sha256Hex(token)) : null;
    const nowMs = this.#deps.now();
    if (record === null || nowMs >= endOf(record)) {
      throw new ServiceError("invalid_api_key", "The session is over. Sign in again.");
    }
    this.#noteUse(record, nowMs);
    return { kind: "administrator", keyId: null, account: "default", sessionId: record.id, role: record.role };
  }

  /** Those that are not over, the newest first. */
  async list(): Promise<readonly SessionRecord[]> {
    const nowMs = this.#deps.now();
    const records = await this.#deps.sessions.list(nowMs);
    return records.filter((record) => nowMs < endOf(record));
  }

  /** False: there is none. */
  end(id: string): Promise<boolean> {
    return this.#deps.sessions.remove(id);
  }

  /** Ends all sessions of a user but `keepId`. Returns how many. */
  endOthers(user: string, keepId: string | null): Promise<number> {
    return this.#deps.sessions.removeOthers(user, keepId);
  }

  /** Beside the request: a use that cannot be noted ends the session a minute early, no more. */
  #noteUse({ id, createdAtMs, lastSeenAtMs }: SessionRecord, nowMs: number): void {
    if (nowMs - lastSeenAtMs < touchEveryMs) return;
    const expiresAtMs = Math.min(nowMs + sessionIdleMs, createdAtMs + sessionAgeMs);
    this.#deps.sessions
      .touch(id, nowMs, expiresAtMs)
      .catch((err: unknown) => this.#deps.log.warn({ err, session_id: id }, "the use of a session cannot be noted"));
  }
}

function endOf({ expiresAtMs, createdAtMs }: SessionRecord): number {
  return Math.min(expiresAtMs, createdAtMs + sessionAgeMs);
}

/** A person who has signed in to the dashboard. The cookie's token is kept as its SHA-256 only. */
export interface SessionRecord {
  /** `ses_` and 24 characters. */
  readonly id: string;
  readonly tokenHash: string;
  readonly user: string;
  readonly role: "admin" | "viewer";
  readonly createdAtMs: number;
  readonly lastSeenAtMs: number;
  /** Idle end, moved by use, at most to the session's total age. */
  readonly expiresAtMs: number;
  /** Peer address at sign-in. */
  readonly address: string;
  readonly userAgent: string;
}

/** Where sessions are kept. Changes are told through the state's change feed. Rejects with `storage_unavailable`. */
export interface SessionStore {
  insert(session: SessionRecord): Promise<void>;
  findByHash(tokenHash: string): Promise<SessionRecord | null>;
  /** Without effect for a session that is gone. */
  touch(id: string, lastSeenAtMs: number, expiresAtMs: number): Promise<void>;
  /** Those that have not expired, the newest first; at most 1,000. */
  list(nowMs: number): Promise<readonly SessionRecord[]>;
  /** False: there is none. */
  remove(id: string): Promise<boolean>;
  /** All of a user but one, e.g. when the password changes. Returns how many. */
  removeOthers(user: string, keepId: string | null): Promise<number>;
}
