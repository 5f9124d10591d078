import type { KeyPriority, Scope } from "../call/principal.js";
import type { RateLimits } from "../call/rate-limits.js";
import { checkLength } from "../call/service-error.js";

/** A stored API key, without its secret (KEY-3). Immutable; a change is a new record. */
export interface ApiKeyRecord {
  /** `key_` and 24 characters. */
  readonly id: string;
  readonly name: string;
  readonly account: string;
  readonly scope: Scope;
  /** SHA-256 of the whole secret, lower-case hex, by which the key is found. */
  readonly hash: string;
  /** First 10 characters of the secret. */
  readonly prefix: string;
  /** Last 4 characters of the secret. */
  readonly last4: string;
  readonly models: readonly string[];
  /** Its own limits; null means the configured default for keys. */
  readonly limits: RateLimits;
  /** Absent: default, as in every key of an earlier version. */
  readonly priority?: KeyPriority;
  readonly createdAtMs: number;
  /** `first_start`, `bootstrap` or `administrator`. */
  readonly createdBy: string;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  readonly lastUsedAtMs: number | null;
}

/** One bounded step through the list of keys. */
export interface KeyStep {
  readonly filter: KeyFilter;
  /** Keys to find, 1 to 1,000. */
  readonly limit: number;
  /** Cursor of the step before; null for the first. */
  readonly after: string | null;
}

export interface ApiKeyPage {
  readonly records: readonly ApiKeyRecord[];
  /** Cursor of the next step; null when no key follows. */
  readonly next: string | null;
}

/** Maximum keys that one step examines: a few milliseconds of any store. */
export const keysPerStep = 1_000;

/** Changes of a key; absent fields keep their values. */
export interface KeyChange {
  readonly name?: string;
  readonly models?: readonly string[];
  readonly limits?: RateLimits;
  readonly priority?: KeyPriority;
  readonly expiresAtMs?: number | null;
}

/**
 * Port of the key store. Changes, except uses, are published on the change feed. Promises resolve when the write is durable,
 * and reject with ServiceError `storage_unavailable` when the store is unavailable.
 */
export interface KeyStore {
  findByHash(hash: string): Promise<ApiKeyRecord | null>;
  find(id: string): Promise<ApiKeyRecord | null>;
  /** Rejects with ServiceError `conflict` when the hash or id is taken. */
  insert(record: ApiKeyRecord): Promise<void>;
  /** Inserts only into a store without any key, in one atomic step; false if there was one. */
  insertFirst(record: ApiKeyRecord): Promise<boolean>;
  /**
   * Newest first, with revoked ones. Examines `keysPerStep` keys at most, so it may return none although later keys match.
   */
  list(step: KeyStep): Promise<ApiKeyPage>;
  /** Revokes the key and returns it; an earlier time of revocation is kept. Null for an unknown id. */
  revoke(id: string, atMs: number): Promise<ApiKeyRecord | null>;
  /** Changes a key and returns it; null for an unknown id. */
  update(id: string, change: KeyChange): Promise<ApiKeyRecord | null>;
  /**
   * Inserts the successor of a key and sets the expiry of the old one, unless it expires earlier, in one atomic step
   * (KEY-16). False, with nothing changed, for an unknown or revoked key.
   */
  rotate(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): Promise<boolean>;
  /** Records uses, at most 1,000; the latest time of each key counts. Unknown ids are skipped. */
  touch(uses: readonly KeyUse[]): Promise<void>;
}

export interface KeyUse {
  readonly id: string;
  readonly atMs: number;
}

export type KeyState = "active" | "expired" | "revoked";

/** Filter of a list; null fields match all keys. */
export interface KeyFilter {
  readonly account: string | null;
  /** Text in the form of `foldCase` that the name, account, id, prefix or last four characters contain. */
  readonly search: string | null;
  readonly state: KeyState | null;
  /** Time for which `state` is evaluated. */
  readonly nowMs: number;
}

const searchCharsMax = 128;

/** Normalizes the text to search for; null if it is empty. Throws ServiceError when it is too long. */
export function checkSearch(text: string): string | null {
  checkLength(text, "search", searchCharsMax);
  const wanted = foldCase(text.trim());
  return wanted === "" ? null : wanted;
}

/** Lower-cases only A to Z, because every store does this in the same way. */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Whether a key matches the filter. */
export function isListed(record: ApiKeyRecord, { account, search, state, nowMs }: KeyFilter): boolean {
  if (account !== null && record.account !== account) return false;
  if (state !== null && keyStateOf(record, nowMs) !== state) return false;
  const { name, id, prefix, last4 } = record;
  return search === null || [name, record.account, id, prefix, last4].some((text) => foldCase(text).includes(search));
}

function keyStateOf({ revokedAtMs, expiresAtMs }: ApiKeyRecord, nowMs: number): KeyState {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

/** Position of a key in the order of every driver: newest first, then by id. Pages stay complete while keys are added. */
export interface KeyCursor {
  readonly createdAtMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(key_[0-9A-Za-z]{1,64})$/;

export function cursorOf({ createdAtMs, id }: KeyCursor): string {
  return `${createdAtMs}:${id}`;
}

/** Null for an invalid cursor. */
export function parseCursor(cursor: string): KeyCursor | null {
  const [, createdAtMs, id] = cursorForm.exec(cursor) ?? [];
  return createdAtMs === undefined || id === undefined ? null : { createdAtMs: Number(createdAtMs), id };
}

/** The priority as a field of a stored key; absent for the default and for unknown values. */
export function storedPriority(value: unknown): { readonly priority?: KeyPriority } {
  return value === "interactive" || value === "batch" ? { priority: value } : {};
}

/** Number of keys that a step examines: without search and state, only as many as it returns. */
export function examinedCount({ filter, limit }: KeyStep): number {
  return filter.search === null && filter.state === null ? Math.min(limit, keysPerStep) : keysPerStep;
}

/**
 * Result of a step that examined the keys `examined`, in the order of the list. `next` is the cursor after the last of them;
 * null if no key follows.
 */
export function pageOfStep(
  { filter, limit }: KeyStep,
  examined: readonly ApiKeyRecord[],
  next: string | null,
): ApiKeyPage {
  const found = examined.filter((record) => isListed(record, filter));
  const records = found.slice(0, limit);
  const last = records.at(-1);
  return { records, next: found.length > limit && last !== undefined ? cursorOf(last) : next };
}

/** Deeply frozen copy of a record: caches return the same object to every request (KEY-12). */
export function frozenKey(record: ApiKeyRecord): ApiKeyRecord {
  return Object.freeze({
    ...record,
    models: Object.freeze([...record.models]),
    limits: Object.freeze({ ...record.limits }),
  });
}

/** Audit details of a new key. */
export function keyDetails(record: ApiKeyRecord): Record<string, string> {
  return { account: record.account, scope: record.scope, ...changeDetails(record) };
}

/** Audit details of a change: the new values. */
export function changeDetails({ name, models, limits, priority, expiresAtMs }: KeyChange): Record<string, string> {
  return {
    ...(name === undefined ? {} : { name }),
    ...(models === undefined ? {} : { models: models.length === 0 ? "all" : models.join(",") }),
    ...(limits === undefined ? {} : limitDetails(limits)),
    ...(priority === undefined ? {} : { priority }),
    ...(expiresAtMs === undefined
      ? {}
      : { expires_at: expiresAtMs === null ? "never" : new Date(expiresAtMs).toISOString() }),
  };
}

/** Audit details of limits; unset ones are `default`. */
function limitDetails({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): Record<string, string> {
  return {
    requests_per_minute: String(requestsPerMinute ?? "default"),
    tokens_per_minute: String(tokensPerMinute ?? "default"),
    concurrency: String(concurrency ?? "default"),
  };
}
