import { BoundedMap } from "../../lib/collections.js";
import type { ChangeFeed, Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { type ApiKeyRecord, frozenKey, type KeyStore } from "./key-store.js";

/**
 * Keys that are cached by their secret: the 110,000 that were used last are always among them. One takes about 1.2 KB,
 * with its principal.
 */
export const knownKeysMax = 220_000;
/** A separate cache, so that a flood of made-up keys evicts no valid one. */
const unknownMax = 1_000;
const knownFreshMs = 30_000;
const unknownFreshMs = 5_000;
const outageMs = 300_000;
/** After a failed read, known keys skip the store for this long: a frozen store would slow each request. */
const skipMs = 1_000;
/** Retry-After during an outage. */
const retryAfterMs = 1_000;
/** Changed keys that are remembered until all entries are searched for them, which takes milliseconds. */
const changedMax = 1_000;

interface Known {
  readonly record: ApiKeyRecord;
  readonly readAtMs: number;
  /** Number of the change feed's link at the read; null without a link, so that a change could be missed. */
  readonly link: number | null;
}

interface KeyCacheDeps {
  readonly keys: Pick<KeyStore, "findByHash">;
  readonly clock: Pick<Clock, "monotonic">;
  readonly changes: Pick<ChangeFeed, "isLinked" | "isComplete">;
}

/**
 * Keys by their hash (KEY-11, KEY-12, KEY-14): known ones are cached for 30 s, or until they change where no change can be
 * missed, unknown ones for 5 s. While changes of other
 * replicas do not arrive, every key is read from the store. While the store is unavailable, known keys stay valid for
 * 5 min; others fail with `storage_unavailable`, never as invalid.
 */
export class KeyCache {
  readonly #deps: KeyCacheDeps;
  readonly #known = new BoundedMap<string, Known>(knownKeysMax);
  /** Ids of changed keys, whose entries are not used any more. */
  readonly #changed = new Set<string>();
  #unknownSinceMs = new BoundedMap<string, number>(unknownMax);
  /** Reads in progress: requests with the same key share one look-up. */
  readonly #reads = new Map<string, Promise<ApiKeyRecord | null>>();
  /** Number of invalidations: a read that was in progress meanwhile may be stale. */
  #generation = 0;
  /** Number of links: entries read under an earlier one may be stale. */
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

  /** Invalidates a key, also for requests in progress. */
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
