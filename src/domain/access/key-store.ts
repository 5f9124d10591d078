import type { Scope } from "../call/principal.js";
import type { RateLimits } from "../call/rate-limits.js";
import { checkLength } from "../call/service-error.js";

/** What is kept of an API key: never the secret (KEY-3). Immutable; a change is a new record. */
export interface ApiKeyRecord {
  /** `key_` and 24 characters. */
  readonly id: string;
  readonly name: string;
  readonly account: string;
  readonly scope: Scope;
  /** SHA-256 of the whole secret, lower-case hex: how the key is found. */
  readonly hash: string;
  /** First 10 characters of the secret. */
  readonly prefix: string;
  /** Last 4 characters of the secret. */
  readonly last4: string;
  readonly models: readonly string[];
  /** Its own limits; what is null here is the configuration's default for keys. */
  readonly limits: RateLimits;
  readonly createdAtMs: number;
  /** `first_start`, `bootstrap` or `administrator`. */
  readonly createdBy: string;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  readonly lastUsedAtMs: number | null;
}

/** One step through the list of keys: short, however many keys there are. */
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

/** Keys that one step looks at: a few milliseconds of any store. */
export const keysPerStep = 1_000;

/** What can be changed of a key; what is absent stays. */
export interface KeyChange {
  readonly name?: string;
  readonly models?: readonly string[];
  readonly limits?: RateLimits;
  readonly expiresAtMs?: number | null;
}

/**
 * Where API keys are kept. Every change but a touch is told through the state's change feed. Every promise resolves when the write is as durable as the store promises; a store that
 * cannot be reached or written rejects with ServiceError `storage_unavailable`.
 */
export interface KeyStore {
  findByHash(hash: string): Promise<ApiKeyRecord | null>;
  find(id: string): Promise<ApiKeyRecord | null>;
  /** Rejects with ServiceError `conflict` when the hash or id is taken. */
  insert(record: ApiKeyRecord): Promise<void>;
  /** Inserts only into a store without any key, in one atomic step; false when there was one (one replica wins). */
  insertFirst(record: ApiKeyRecord): Promise<boolean>;
  /**
   * Newest first, revoked ones included. It looks at no more than `keysPerStep` keys: where the filter lets few through,
   * it finds fewer than the limit, even none, and others may still follow.
   */
  list(step: KeyStep): Promise<ApiKeyPage>;
  /** Marks the key revoked and returns it; keeps the first instant when it was revoked before; null: no such id. */
  revoke(id: string, atMs: number): Promise<ApiKeyRecord | null>;
  /** Changes a key and returns it; null: no such id. */
  update(id: string, change: KeyChange): Promise<ApiKeyRecord | null>;
  /**
   * Inserts the successor of a key and sets when the old one expires (or leaves an earlier expiry), in one atomic step
   * (KEY-16). False, with nothing changed, when the old one does not exist or is revoked.
   */
  rotate(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): Promise<boolean>;
  /** Notes a use; a later instant wins. */
  touch(id: string, atMs: number): Promise<void>;
}

/** Which keys a list shows, told the same way for every driver. */

export type KeyState = "active" | "expired" | "revoked";

/** Null, each: any. */
export interface KeyFilter {
  readonly account: string | null;
  /** As `foldCase` gives it: found in the name, the account, the id, the prefix or the last four characters. */
  readonly search: string | null;
  readonly state: KeyState | null;
  /** The instant at which keys are in the state. */
  readonly nowMs: number;
}

const searchCharsMax = 128;

/** What to look for; null for nothing. Throws ServiceError when it is too long. */
export function checkSearch(text: string): string | null {
  checkLength(text, "search", searchCharsMax);
  const wanted = foldCase(text.trim());
  return wanted === "" ? null : wanted;
}

/** A to Z as a to z and nothing else, which every store can do alike. */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Whether the filter lets a key through. */
export function isListed(record: ApiKeyRecord, { account, search, state, nowMs }: KeyFilter): boolean {
  if (account !== null && record.account !== account) return false;
  if (state !== null && keyStateOf(record, nowMs) !== state) return false;
  return search === null || searchedOf(record).some((text) => foldCase(text).includes(search));
}

function keyStateOf({ revokedAtMs, expiresAtMs }: ApiKeyRecord, nowMs: number): KeyState {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

function searchedOf({ name, account, id, prefix, last4 }: ApiKeyRecord): readonly string[] {
  return [name, account, id, prefix, last4];
}

/**
 * The order in which every driver lists API keys: newest first, by id where two were made in the same millisecond. A
 * cursor is the place of one record in that order, so pages stay whole while keys are added.
 */
export interface KeyCursor {
  readonly createdAtMs: number;
  readonly id: string;
}

const cursorForm = /^(\d{1,16}):(key_[0-9A-Za-z]{1,64})$/;

export function cursorOf(place: KeyCursor): string {
  return `${place.createdAtMs}:${place.id}`;
}

/** Null when the text was never a cursor. */
export function parseCursor(cursor: string): KeyCursor | null {
  const [, createdAtMs, id] = cursorForm.exec(cursor) ?? [];
  return createdAtMs === undefined || id === undefined ? null : { createdAtMs: Number(createdAtMs), id };
}

/** How many keys a step looks at: where every key passes, those that it is to find. */
export function looksOf({ filter, limit }: KeyStep): number {
  return filter.search === null && filter.state === null ? Math.min(limit, keysPerStep) : keysPerStep;
}

/**
 * What a step has found among the keys that it looked at, which come in the order of the list. `next` is the cursor behind
 * all of them; null when no key follows.
 */
export function pageOfStep(
  { filter, limit }: KeyStep,
  looked: readonly ApiKeyRecord[],
  next: string | null,
): ApiKeyPage {
  const found = looked.filter((record) => isListed(record, filter));
  const records = found.slice(0, limit);
  const last = records.at(-1);
  return { records, next: found.length > limit && last !== undefined ? cursorOf(last) : next };
}

/** A record that nobody can change by accident: caches hand out the same object to every request (KEY-12). */
export function frozenKey(record: ApiKeyRecord): ApiKeyRecord {
  return Object.freeze({
    ...record,
    models: Object.freeze([...record.models]),
    limits: Object.freeze({ ...record.limits }),
  });
}

/** What the audit says of a new key. */
export function keyDetails(record: ApiKeyRecord): Record<string, string> {
  return { account: record.account, scope: record.scope, ...changeDetails(record) };
}

/** What the audit says of a changed key: the new values of what was changed. */
export function changeDetails({ name, models, limits, expiresAtMs }: KeyChange): Record<string, string> {
  return {
    ...(name === undefined ? {} : { name }),
    ...(models === undefined ? {} : { models: models.length === 0 ? "all" : models.join(",") }),
    ...(limits === undefined ? {} : limitDetails(limits)),
    ...(expiresAtMs === undefined ? {} : { expires_at: expiresAtMs === null ? "never" : isoTime(expiresAtMs) }),
  };
}

/** What the audit says of limits; those that are not set are `default`. */
function limitDetails({ requestsPerMinute, tokensPerMinute, concurrency }: RateLimits): Record<string, string> {
  return {
    requests_per_minute: String(requestsPerMinute ?? "default"),
    tokens_per_minute: String(tokensPerMinute ?? "default"),
    concurrency: String(concurrency ?? "default"),
  };
}

function isoTime(atMs: number): string {
  return new Date(atMs).toISOString();
}
