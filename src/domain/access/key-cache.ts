import { BoundedMap } from "../../lib/collections.js";
import type { KeyRights, LiveRequests } from "../call/live-requests.js";
import type { ChangeFeed, Clock, Logger, StateChange } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { type ApiKeyRecord, frozenKey, type KeyStore } from "./key-store.js";
import type { Sessions } from "./sessions.js";

/**
 * Maximum number of cached keys; the 110,000 that were used last are always among them. A cached key takes about 2 kB,
 * including its principal and its pages of the embedded store's file.
 */
export const knownKeysMax = 220_000;
/**
 * Maximum number of cached unknown keys. They have a separate cache, so that a flood of invented keys evicts no valid one.
 */
const unknownMax = 1_000;
const knownFreshMs = 30_000;
const unknownFreshMs = 5_000;
const outageMs = 300_000;
/** After a failed read, known keys skip the store for this long: a frozen store would slow each request. */
const skipMs = 1_000;
/** Retry-After during an outage. */
const retryAfterMs = 1_000;
/** Number of changed keys at which all entries are searched and those of changed keys removed, which takes milliseconds. */
const changedMax = 1_000;

interface Known {
  readonly record: ApiKeyRecord;
  readonly readAtMs: number;
  /** `#link` at the time of the read; null if the change feed was not connected, so that a change could be missed. */
  readonly link: number | null;
}

interface KeyCacheDeps {
  readonly keys: Pick<KeyStore, "findByHash">;
  readonly clock: Pick<Clock, "monotonic">;
  readonly changes: Pick<ChangeFeed, "isLinked" | "isComplete">;
}

/**
 * Caches keys by their hash (KEY-11, KEY-12, KEY-14): existing keys for 30 s, or until they change if no other process
 * writes the store; unknown ones for 5 s. While changes of other replicas do not arrive, every key is read from the store.
 * While the store is unavailable, known keys stay valid for 5 min; others fail with `storage_unavailable`, never as invalid.
 */
export class KeyCache {
  readonly #deps: KeyCacheDeps;
  readonly #known = new BoundedMap<string, Known>(knownKeysMax);
  /** Ids of changed keys, whose entries are not used any more. */
  readonly #changed = new Set<string>();
  #unknownSinceMs = new BoundedMap<string, number>(unknownMax);
  /** Reads in progress: requests with the same key share one look-up. */
  readonly #reads = new Map<string, Promise<ApiKeyRecord | null>>();
  /** Number of invalidations: a read during which it grew may be stale. */
  #generation = 0;
  /** Number of the change feed's current connection: entries that were read during an earlier connection may be stale. */
  #link = 0;
  /** Time of the last failed read (monotonic), reset by a success. */
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: KeyCacheDeps) {
    this.#deps = deps;
  }

  /** Number of cached keys, including unknown ones. */
  get size(): number {
    return this.#known.size + this.#unknownSinceMs.size;
  }

  /** The cached record at `nowMs` (monotonic), also if revoked or expired; undefined when the store must be read. */
  fresh(hash: string, nowMs: number): ApiKeyRecord | undefined {
    const { isLinked, isComplete } = this.#deps.changes;
    const known = this.#current(hash);
    if (known === undefined || known.link !== this.#link || !isLinked) return undefined;
    return isComplete || nowMs - known.readAtMs < knownFreshMs ? known.record : undefined;
  }

  /** The record, revoked and expired ones included; null when there is no such key. Rejects with `storage_unavailable`. */
  async find(hash: string): Promise<ApiKeyRecord | null> {
    const nowMs = this.#deps.clock.monotonic();
    const fresh = this.fresh(hash, nowMs);
    if (fresh !== undefined) return fresh;
    const unknownSinceMs = this.#unknownSinceMs.get(hash);
    if (unknownSinceMs !== undefined && nowMs - unknownSinceMs < unknownFreshMs) return null;
    const reading = this.#reads.get(hash) ?? this.#read(hash);
    if (nowMs - this.#failedAtMs < skipMs) {
      const last = this.#lastKnown(hash, nowMs);
      if (last !== undefined) {
        reading.catch(() => {});
        return last;
      }
    }
    try {
      return await reading;
    } catch (cause) {
      // Looked up again: the key may have been invalidated while the read failed.
      const last = this.#lastKnown(hash, nowMs);
      if (last !== undefined) return last;
      // Nothing has run yet, so the client may retry.
      const options = { cause, retryAfterMs, shouldRetry: true };
      throw new ServiceError("storage_unavailable", "API keys cannot be checked: the store does not answer.", options);
    }
  }

  /** The entry, unless its key has changed since it was read. */
  #current(hash: string): Known | undefined {
    const known = this.#known.get(hash);
    return known !== undefined && this.#changed.size > 0 && this.#changed.has(known.record.id) ? undefined : known;
  }

  /** The record to use during an outage. */
  #lastKnown(hash: string, nowMs: number): ApiKeyRecord | undefined {
    const last = this.#current(hash);
    return last !== undefined && nowMs - last.readAtMs < outageMs ? last.record : undefined;
  }

  /** Invalidates a key, also in reads that are in progress. */
  forget(keyId: string): void {
    this.#discardReads();
    this.#changed.add(keyId);
    if (this.#changed.size < changedMax) return;
    for (const [hash, { record }] of this.#known.entries()) {
      if (this.#changed.has(record.id)) this.#known.delete(hash);
    }
    this.#changed.clear();
  }

  /** Invalidates all keys, because changes may have been missed. */
  doubtAll(): void {
    this.#discardReads();
    this.#link += 1;
  }

  #discardReads(): void {
    this.#generation += 1;
    this.#reads.clear();
    if (this.#unknownSinceMs.size > 0) this.#unknownSinceMs = new BoundedMap(unknownMax);
  }

  #read(hash: string): Promise<ApiKeyRecord | null> {
    const read = this.#readAndRemember(hash).finally(() => {
      if (this.#reads.get(hash) === read) this.#reads.delete(hash);
    });
    this.#reads.set(hash, read);
    return read;
  }

  async #readAndRemember(hash: string): Promise<ApiKeyRecord | null> {
    const { keys, clock, changes } = this.#deps;
    const generation = this.#generation;
    const link = changes.isLinked ? this.#link : null;
    let found: ApiKeyRecord | null;
    try {
      found = await keys.findByHash(hash);
      this.#failedAtMs = Number.NEGATIVE_INFINITY;
    } catch (cause) {
      this.#failedAtMs = clock.monotonic();
      throw cause;
    }
    const record = found === null ? null : frozenKey(found);
    if (generation === this.#generation) this.#remember(hash, record, link);
    return record;
  }

  #remember(hash: string, record: ApiKeyRecord | null, link: number | null): void {
    const nowMs = this.#deps.clock.monotonic();
    if (record !== null) {
      this.#unknownSinceMs.delete(hash);
      this.#changed.delete(record.id);
      this.#known.set(hash, { record, readAtMs: nowMs, link });
      return;
    }
    this.#known.delete(hash);
    if (link !== null) this.#unknownSinceMs.set(hash, nowMs);
  }
}

/** Interval at which running requests are compared with the rights of their keys, and failed reads are repeated (E-17). */
const checkEveryMs = 500;
/** Checks between two reads of the keys of all running requests, in case a change was missed (KEY-13): 10 s. */
const checksPerSweep = 20;

interface RevocationWatchDeps {
  readonly keys: Pick<KeyStore, "find">;
  readonly sessions: Pick<Sessions, "list">;
  readonly live: LiveRequests;
  readonly changes: Pick<ChangeFeed, "subscribe">;
  readonly clock: Pick<Clock, "after" | "now">;
  /** Store time in milliseconds; keys and sessions expire by it. */
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Ends running requests that their credential no longer allows: the key was revoked, rotated without an overlap, has expired
 * or lost the model, or the session ended, on any replica. Changes arrive on the change feed and are read immediately; a
 * change that was missed is found by the next sweep.
 */
export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  readonly #unsubscribe: () => void;
  #cancelTimer: () => void = () => {};
  #checks = 0;
  /**
   * Rights of keys, as read while requests with these keys ran. They replace the rights that the requests were opened with.
   */
  readonly #rights = new Map<string, KeyRights>();
  /** Keys to read: changed ones first, then those of the sweep. */
  readonly #changed = new Set<string>();
  readonly #swept = new Set<string>();
  #hasUnreadSessions = false;
  /**
   * Changed keys, which the next check reads once more: a request that was being opened during the change may have the old
   * rights.
   */
  readonly #recentKeys = new Set<string>();
  #reading: Promise<void> = Promise.resolve();
  #isReading = false;
  #failing = false;
  #closed = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.changes.subscribe((change) => this.#onChange(change));
    this.#checkLater();
  }

  /** Resolves when no read is in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#cancelTimer();
    await this.#reading;
  }

  #onChange(change: StateChange): void {
    if (change.kind === "key") {
      this.#recentKeys.add(change.id);
      if (this.#deps.live.keyIds().has(change.id)) this.#changed.add(change.id);
    } else if (change.kind === "session") this.#hasUnreadSessions = true;
    else if (change.kind === "lost_link") this.#sweep();
    else return;
    this.#read();
  }

  #checkLater(): void {
    this.#cancelTimer = this.#deps.clock.after(checkEveryMs, () => {
      this.#checkLater();
      this.#checks += 1;
      if (this.#checks % checksPerSweep === 0) this.#sweep();
      this.#check();
    });
  }

  #check(): void {
    if (this.#recentKeys.size > 0) {
      const running = this.#deps.live.keyIds();
      for (const id of this.#recentKeys) if (running.has(id)) this.#changed.add(id);
      this.#recentKeys.clear();
    }
    // Few requests belong to sessions, so sessions are read with every check.
    this.#hasUnreadSessions = true;
    this.#deps.live.endExcluded(this.#rights, this.#deps.now());
    this.#read();
  }

  #sweep(): void {
    const running = this.#deps.live.keyIds();
    for (const id of this.#rights.keys()) if (!running.has(id)) this.#rights.delete(id);
    for (const id of running) this.#swept.add(id);
    this.#hasUnreadSessions = true;
  }

  #read(): void {
    if (!this.#isReading) this.#reading = this.#readUnread();
  }

  /** Reads sessions and keys one after the other. The next check repeats reads that failed. */
  async #readUnread(): Promise<void> {
    this.#isReading = true;
    try {
      while (!this.#closed) {
        const [changed] = this.#changed;
        const [swept] = this.#swept;
        if (this.#hasUnreadSessions) await this.#readSessions();
        else if (changed !== undefined) await this.#readKey(changed, this.#changed);
        else if (swept !== undefined) await this.#readKey(swept, this.#swept);
        else break;
      }
      this.#failing = false;
    } catch (err) {
      if (!this.#failing) this.#deps.log.warn({ err }, "keys of running requests could not be checked; retrying");
      this.#failing = true;
    } finally {
      this.#isReading = false;
    }
  }

  async #readKey(id: string, unread: Set<string>): Promise<void> {
    unread.delete(id);
    const { keys, live, clock, now } = this.#deps;
    const readAtMs = clock.now();
    const record = await keys.find(id).catch((error: unknown) => {
      unread.add(id);
      throw error;
    });
    // A change during the read: the key is read again.
    if (this.#changed.has(id)) return;
    const isRevoked = record === null || record.revokedAtMs !== null;
    this.#rights.set(id, { key: isRevoked ? null : record, readAtMs });
    // One pass over all requests for each key would be too much for a sweep; the next check applies its other results.
    if (unread === this.#changed || isRevoked) live.endExcluded(this.#rights, now());
  }

  async #readSessions(): Promise<void> {
    const { sessions, live } = this.#deps;
    this.#hasUnreadSessions = false;
    const running = live.sessionIds();
    if (running.size === 0) return;
    const active = await sessions.list().catch((error: unknown) => {
      this.#hasUnreadSessions = true;
      throw error;
    });
    const ended = new Set(running);
    for (const { id } of active) ended.delete(id);
    if (ended.size > 0) live.endSessions(ended);
  }
}
