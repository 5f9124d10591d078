/**
 * What the store said about keys, remembered by their hash (KEY-11, KEY-12, KEY-14): known keys for 30 s, unknown ones
 * for 5 s, so that a request costs no look-up. Nothing here is ever changed in place. While the store cannot be reached,
 * known keys go on for 5 min; for the others the caller hears of the outage, never that its key is bad.
 */
import { BoundedMap } from "../../lib/bounded-map.js";
import type { Clock } from "../ports.js";
import { ServiceError } from "../service-error.js";
import { frozenKey } from "./frozen-key.js";
import type { ApiKeyRecord, KeyStore } from "./key-store.js";

const knownMax = 9_000;
/** Apart from the known ones, so that a flood of made-up keys pushes none of them out. */
const unknownMax = 1_000;
const knownFreshMs = 30_000;
const unknownFreshMs = 5_000;
const outageMs = 300_000;

interface Known {
  readonly record: ApiKeyRecord;
  readonly readAtMs: number;
}

export class KeyCache {
  readonly #keys: Pick<KeyStore, "findByHash">;
  readonly #clock: Clock;
  readonly #known = new BoundedMap<string, Known>(knownMax);
  readonly #unknownSinceMs = new BoundedMap<string, number>(unknownMax);
  /** Reads under way: many requests with one key wait for one look-up. */
  readonly #reads = new Map<string, Promise<ApiKeyRecord | null>>();
  /** Counts forgets: a read that was under way meanwhile may have seen the key as it was before. */
  #generation = 0;

  constructor(deps: { readonly keys: Pick<KeyStore, "findByHash">; readonly clock: Clock }) {
    this.#keys = deps.keys;
    this.#clock = deps.clock;
  }

  /** Keys that are remembered, the unknown ones included. */
  get size(): number {
    return this.#known.size + this.#unknownSinceMs.size;
  }

  /** The record of a known key, revoked and expired ones included, when the store need not be asked at `nowMs` (monotonic). */
  fresh(hash: string, nowMs: number): ApiKeyRecord | undefined {
    const known = this.#known.get(hash);
    return known !== undefined && nowMs - known.readAtMs < knownFreshMs ? known.record : undefined;
  }

  /** The record, revoked and expired ones included; null when there is no such key. Rejects with `storage_unavailable`. */
  async find(hash: string): Promise<ApiKeyRecord | null> {
    const nowMs = this.#clock.monotonic();
    const fresh = this.fresh(hash, nowMs);
    if (fresh !== undefined) return fresh;
    const unknownSinceMs = this.#unknownSinceMs.get(hash);
    if (unknownSinceMs !== undefined && nowMs - unknownSinceMs < unknownFreshMs) return null;
    try {
      return await (this.#reads.get(hash) ?? this.#read(hash));
    } catch (cause) {
      // Asked again: the key may have been forgotten while the read failed.
      const last = this.#known.get(hash);
      if (last !== undefined && nowMs - last.readAtMs < outageMs) return last.record;
      throw new ServiceError("storage_unavailable", "API keys cannot be checked now: the store does not answer.", {
        cause,
      });
    }
  }

  /** From now on the key is read from the store, also by requests that are under way. */
  forget(keyId: string): void {
    this.#generation += 1;
    this.#reads.clear();
    for (const [hash, { record }] of this.#known.entries()) {
      if (record.id === keyId) this.#known.delete(hash);
    }
  }

  #read(hash: string): Promise<ApiKeyRecord | null> {
    const read = this.#readAndRemember(hash).finally(() => {
      if (this.#reads.get(hash) === read) this.#reads.delete(hash);
    });
    this.#reads.set(hash, read);
    return read;
  }

  async #readAndRemember(hash: string): Promise<ApiKeyRecord | null> {
    const generation = this.#generation;
    const found = await this.#keys.findByHash(hash);
    const record = found === null ? null : frozenKey(found);
    if (generation === this.#generation) this.#remember(hash, record);
    return record;
  }

  #remember(hash: string, record: ApiKeyRecord | null): void {
    const nowMs = this.#clock.monotonic();
    if (record === null) {
      this.#known.delete(hash);
      this.#unknownSinceMs.set(hash, nowMs);
    } else {
      this.#unknownSinceMs.delete(hash);
      this.#known.set(hash, { record, readAtMs: nowMs });
    }
  }
}
