import type { IdSource, Logger } from "../call/ports.js";
import type { Principal } from "../call/principal.js";

/** On whose behalf something was done: a CallContext has both; a null principal is the service itself. */
export interface AuditSource {
  readonly principal: Principal | null;
  /** Peer address without port; empty for the service itself. */
  readonly address: string;
}

/** What the service does by itself, e.g. with the operator's settings at its start. */
export const theService: AuditSource = Object.freeze({ principal: null, address: "" });

/** What was done to what: `api_key.create`, `session.sign_in`, `limits.update`, … */
export type AuditAction = `${string}.${string}`;

export interface AuditDeps {
  readonly records: Pick<AuditLog, "append">;
  /** The store's time. */
  readonly now: () => number;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** Longer texts of a caller are cut: a record is for reading, and every caller pays for its own space only. */
const detailCharsMax = 256;

/** Writes down every administrative act (KEY-23): who, when, from where, what, and what came of it. */
export class Audit {
  readonly #deps: AuditDeps;
  #lost = 0;

  constructor(deps: AuditDeps) {
    this.#deps = deps;
  }

  /** Records that could not be written since the start. */
  get lost(): number {
    return this.#lost;
  }

  /**
   * To be awaited after the act and before its answer; never rejects. `details` are short texts and never a secret;
   * `result` is `ok` or the code of the error. The act is done when this is called, so a record that cannot be written
   * cannot undo it: telling the caller of a failure would make it do the same again. It is logged and counted instead.
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
      log.error(
        { err, action, target, result, actor: actor.kind, actor_id: actor.id, address },
        "an audit record is lost",
      );
    }
  }
}

function actorOf(principal: Principal | null): AuditActor {
  if (principal === null) return { kind: "system", id: "" };
  switch (principal.kind) {
    case "api_key":
      return { kind: "api_key", id: principal.keyId };
    case "nobody":
      return { kind: "nobody", id: "" };
    case "administrator":
      return principal.sessionId === null
        ? { kind: "admin_token", id: "" }
        : { kind: "session", id: principal.sessionId };
  }
}

function shortened(details: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(details).map(([name, text]) => [name, text.slice(0, detailCharsMax)]));
}

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

/**
 * The order in which every driver lists audit records: newest first, by id where two were made in the same millisecond.
 * A cursor is the place of one record in that order.
 */

export interface AuditPlace {
  readonly atMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(aud_[0-9A-Za-z]{1,64})$/;

export function auditCursorOf({ atMs, id }: AuditRecord): string {
  return `${atMs}:${id}`;
}

/** Null when the text was never a cursor. */
export function parseAuditCursor(cursor: string): AuditPlace | null {
  const [, atMs, id] = cursorForm.exec(cursor) ?? [];
  return atMs === undefined || id === undefined ? null : { atMs: Number(atMs), id };
}
