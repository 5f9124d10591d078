import {
  type ApiKeyRecord,
  byNewest,
  frozenKey,
  isListed,
  type KeyStore,
  pageOfStep,
  parseCursor,
} from "../../domain/access/key-store.js";
import type { LocalChanges } from "../../domain/call/change-feed.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { isFull } from "./bounded.js";

const keysMax = 100_000;

export interface VolatileKeyStore extends KeyStore {
  accounts(): Iterable<string>;
}

/** API keys in memory: gone with the process. At most 100,000; one more is `storage_unavailable`. */
export function createVolatileKeyStore(changes: LocalChanges): VolatileKeyStore {
  const byId = new Map<string, ApiKeyRecord>();
  const idByHash = new Map<string, string>();

  const keep = (record: ApiKeyRecord): ApiKeyRecord => {
    const kept = frozenKey(record);
    byId.set(kept.id, kept);
    idByHash.set(kept.hash, kept.id);
    return kept;
  };
  const put = (record: ApiKeyRecord): ApiKeyRecord => {
    const kept = keep(record);
    changes.tell({ kind: "key", id: kept.id });
    return kept;
  };
  const insert = (record: ApiKeyRecord): void => {
    if (byId.has(record.id) || idByHash.has(record.hash)) {
      throw new ServiceError("conflict", "An API key with this id or secret exists.");
    }
    if (byId.size >= keysMax) throw isFull(keysMax, "API keys");
    put(record);
  };

  return {
    async findByHash(hash) {
      const id = idByHash.get(hash);
      return id === undefined ? null : (byId.get(id) ?? null);
    },
    async find(id) {
      return byId.get(id) ?? null;
    },
    async insert(record) {
      insert(record);
    },
    async insertFirst(record) {
      if (byId.size > 0) return false;
      insert(record);
      return true;
    },
    async list(step) {
      const place = step.after === null ? null : parseCursor(step.after);
      const rest = [...byId.values()]
        .filter((record) => isListed(record, step.filter))
        .filter((record) => place === null || byNewest(place, record) < 0)
        .sort(byNewest);
      return pageOfStep(step, rest, null);
    },
    async revoke(id, atMs) {
      const record = byId.get(id);
      if (record === undefined) return null;
      return put({ ...record, revokedAtMs: record.revokedAtMs ?? atMs });
    },
    async update(id, change) {
      const record = byId.get(id);
      return record === undefined ? null : put({ ...record, ...change });
    },
    async rotate(id, successor, oldExpiresAtMs) {
      const old = byId.get(id);
      if (old === undefined || old.revokedAtMs !== null) return false;
      insert(successor);
      put({ ...old, expiresAtMs: Math.min(old.expiresAtMs ?? oldExpiresAtMs, oldExpiresAtMs) });
      return true;
    },
    async touch(id, atMs) {
      const record = byId.get(id);
      if (record !== undefined) keep({ ...record, lastUsedAtMs: Math.max(record.lastUsedAtMs ?? 0, atMs) });
    },
    *accounts() {
      for (const { account } of byId.values()) yield account;
    },
  };
}
