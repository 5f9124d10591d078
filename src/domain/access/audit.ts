import type { IdSource, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";

/** The actor of an audit record. A CallContext has both fields and can be passed; a null principal is the service itself. */
export interface AuditSource {
  readonly principal: Principal | null;
  /** Peer address without port; empty for the service itself. */
  readonly address: string;
}

/** The service itself as the actor, for example when it applies settings at its start. */
export const theService: AuditSource = Object.freeze({ principal: null, address: "" });

/** Object and verb: `api_key.create`, `session.sign_in`, `limits.update`, … */
export type AuditAction = `${string}.${string}`;

export interface AuditDeps {
  readonly records: Pick<AuditLog, "append">;
  /** Store time. */
  readonly now: () => number;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** Bounds the size of a record: longer texts are cut. */
const detailCharsMax = 256;

/** Records every administrative act (KEY-23): actor, time, address, action and result. */
export class Audit {
  readonly #deps: AuditDeps;
  #lost = 0;

  constructor(deps: AuditDeps) {
    this.#deps = deps;
  }

  /** Number of records that could not be written since the start. */
  get lost(): number {
    return this.#lost;
  }

  /**
   * Await it after the act and before the response is sent; it never rejects. `details` are short texts and never a secret;
   * `result` is `ok` or the error's code. A failed write is logged and counted: the act is already done, and an error would
   * make the caller repeat it.
   */
  async record(
    { principal, address }: AuditSource,
    action: AuditAction,
    target: string,
    details: Readonly<Record<string, string>> = {},
    result = "ok",
  ): Promise<void> {
    const { records, now, ids, log } = this.#deps;
    const actor = actorOf(principal);
    const id = ids.text("aud_");
    try {
      await records.append({ id, atMs: now(), actor, address, action, target, result, details: shortened(details) });
    } catch (err) {
      this.#lost += 1;
      log.error({ err, action, target, result, actor: actor.kind, actor_id: actor.id, address }, "audit record lost");
    }
  }
}

function actorOf(principal: Principal | null): AuditActor {
  if (principal === null) return { kind: "system", id: "" };
  if (principal.kind !== "administrator") return { kind: principal.kind, id: principal.keyId ?? "" };
  const { sessionId } = principal;
  return sessionId === null ? { kind: "admin_token", id: "" } : { kind: "session", id: sessionId };
}

function shortened(details: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(details).map(([name, text]) => [name, text.slice(0, detailCharsMax)]));
}

/** The actor: the administrator's token, a dashboard session, an API key, or the service itself. */
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
  /** Peer address; empty for the service itself. */
  readonly address: string;
  /** `api_key.create`, `session.sign_in`, … */
  readonly action: string;
  /** Id of the object; empty when there is none. */
  readonly target: string;
  /** `ok`, or the code of the error. */
  readonly result: string;
  /** Changed values by name. */
  readonly details: Readonly<Record<string, string>>;
}

export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** Cursor of the next page; null for the last page. */
  readonly next: string | null;
}

/** Port of the audit log, which keeps records for 400 days. Rejects with `storage_unavailable`. */
export interface AuditLog {
  append(record: AuditRecord): Promise<void>;
  /** Newest first; `after` is the cursor of the page before. */
  list(page: { readonly limit: number; readonly after: string | null }): Promise<AuditPage>;
}

/** Position of a record in the order of every driver: newest first, then by id. */
export interface AuditCursor {
  readonly atMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(aud_[0-9A-Za-z]{1,64})$/;

export function auditCursorOf({ atMs, id }: AuditRecord): string {
  return `${atMs}:${id}`;
}

/** Null for an invalid cursor. */
export function parseAuditCursor(cursor: string): AuditCursor | null {
  const [, atMs, id] = cursorForm.exec(cursor) ?? [];
  return atMs === undefined || id === undefined ? null : { atMs: Number(atMs), id };
}
