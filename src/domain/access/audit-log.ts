/** Who did something: the administrator by token, somebody who is signed in, an API key, the service itself. */
export interface AuditActor {
  readonly kind: "admin_token" | "session" | "api_key" | "system" | "nobody";
  /** Id of the session or key, never a secret; empty for the others. */
  readonly id: string;
}

/** One administrative act (KEY-23). It holds no secret. */
export interface AuditRecord {
  /** `aud_` and 24 characters. */
  readonly id: string;
  readonly atMs: number;
  readonly actor: AuditActor;
  /** Peer address; empty for what the service does by itself. */
  readonly address: string;
  /** `api_key.create`, `session.sign_in`, … */
  readonly action: string;
  /** Id of what was acted on; empty when there is none. */
  readonly target: string;
  /** `ok`, or the code of the error. */
  readonly result: string;
  /** What was changed, as short texts by name. */
  readonly details: Readonly<Record<string, string>>;
}

export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** Cursor of the next page; null when this was the last. */
  readonly next: string | null;
}

/** Where audit records are kept, for 400 days. Rejects with `storage_unavailable`. */
export interface AuditLog {
  append(record: AuditRecord): Promise<void>;
  /** Newest first; `after` is the cursor of the page before. */
  list(page: { readonly limit: number; readonly after: string | null }): Promise<AuditPage>;
}
