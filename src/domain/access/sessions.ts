import { sha256Hex } from "../../lib/crypto.js";
import type { IdSource, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";

/** Idle timeout and maximum age of a session (KEY-22). */
const sessionIdleMs = 12 * 3_600_000;
export const sessionAgeMs = 7 * 86_400_000;
/** Interval at which the last use is written. */
const touchEveryMs = 60_000;
/** Length of a token: 43 base62 characters hold 256 bits. */
const tokenChars = 43;
const tokenForm = /^[0-9A-Za-z]{43}$/;

export interface SessionsDeps {
  readonly sessions: SessionStore;
  /** Store time. */
  readonly now: () => number;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** Origin of a sign-in. */
export interface SignInOrigin {
  readonly address: string;
  readonly userAgent: string;
}

export interface NewSession {
  readonly record: SessionRecord;
  /** Value of the cookie; never shown or stored. */
  readonly token: string;
}

/** Dashboard sessions. Each request reads its session from the store, so revocation works on every replica. */
export class Sessions {
  readonly #deps: SessionsDeps;

  constructor(deps: SessionsDeps) {
    this.#deps = deps;
  }

  /** Creates a session. The caller must have checked the password or the set-up link. */
  async begin(user: string, { address, userAgent }: SignInOrigin): Promise<NewSession> {
    const { sessions, ids, now } = this.#deps;
    const token = ids.text("", tokenChars);
    const nowMs = now();
    const times = { createdAtMs: nowMs, lastSeenAtMs: nowMs, expiresAtMs: nowMs + sessionIdleMs };
    const id = ids.text("ses_");
    const record: SessionRecord = {
      id,
      tokenHash: sha256Hex(token),
      user,
      role: "admin",
      ...times,
      address,
      userAgent,
    };
    await sessions.insert(record);
    return { record, token };
  }

  /** Rejects with `invalid_api_key` for an ended or unknown session. */
  async authenticate(token: string): Promise<Principal> {
    const record = tokenForm.test(token) ? await this.#deps.sessions.findByHash(sha256Hex(token)) : null;
    const nowMs = this.#deps.now();
    if (record === null || nowMs >= endOf(record)) {
      throw new ServiceError("invalid_api_key", "The session is over. Sign in again.");
    }
    this.#noteUse(record, nowMs);
    return { kind: "administrator", keyId: null, account: "default", sessionId: record.id, role: record.role };
  }

  /** Active sessions, newest first. */
  async list(): Promise<readonly SessionRecord[]> {
    const nowMs = this.#deps.now();
    const records = await this.#deps.sessions.list(nowMs);
    return records.filter((record) => nowMs < endOf(record));
  }

  /** False if there is no such session. */
  end(id: string): Promise<boolean> {
    return this.#deps.sessions.remove(id);
  }

  /** Ends all sessions of a user except `keepId`. Returns their number. */
  endOthers(user: string, keepId: string | null): Promise<number> {
    return this.#deps.sessions.removeOthers(user, keepId);
  }

  /** Stores the last use without delaying the request. If the write fails, the session ends at most a minute early. */
  #noteUse({ id, createdAtMs, lastSeenAtMs }: SessionRecord, nowMs: number): void {
    if (nowMs - lastSeenAtMs < touchEveryMs) return;
    const expiresAtMs = Math.min(nowMs + sessionIdleMs, createdAtMs + sessionAgeMs);
    this.#deps.sessions
      .touch(id, nowMs, expiresAtMs)
      .catch((err: unknown) => this.#deps.log.warn({ err, session_id: id }, "use of a session could not be recorded"));
  }
}

function endOf({ expiresAtMs, createdAtMs }: SessionRecord): number {
  return Math.min(expiresAtMs, createdAtMs + sessionAgeMs);
}

/** A dashboard session. Only the SHA-256 of the cookie's token is stored. */
export interface SessionRecord {
  /** `ses_` and 24 characters. */
  readonly id: string;
  readonly tokenHash: string;
  readonly user: string;
  readonly role: "admin" | "viewer";
  readonly createdAtMs: number;
  readonly lastSeenAtMs: number;
  /** End by the idle timeout, extended by use up to the maximum age. */
  readonly expiresAtMs: number;
  /** Peer address at sign-in. */
  readonly address: string;
  readonly userAgent: string;
}

/** Port of the session store. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface SessionStore {
  insert(session: SessionRecord): Promise<void>;
  findByHash(tokenHash: string): Promise<SessionRecord | null>;
  /** No effect on a removed session. */
  touch(id: string, lastSeenAtMs: number, expiresAtMs: number): Promise<void>;
  /** Sessions that have not expired, newest first; at most 1,000. */
  list(nowMs: number): Promise<readonly SessionRecord[]>;
  /** False if there is no such session. */
  remove(id: string): Promise<boolean>;
  /** Removes all sessions of a user except one. Returns their number. */
  removeOthers(user: string, keepId: string | null): Promise<number>;
}
