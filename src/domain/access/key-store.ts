import type { Scope } from "../call/principal.js";
import type { RateLimits } from "../call/rate-limits.js";
import type { KeyFilter } from "./key-filter.js";

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
