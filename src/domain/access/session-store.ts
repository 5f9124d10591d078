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
