import { frozenKey } from "../../domain/access/frozen-key.js";
import { byNewest, cursorOf, parseCursor } from "../../domain/access/key-order.js";
import type { ApiKeyRecord, KeyStore } from "../../domain/access/key-store.js";
import { ServiceError } from "../../domain/service-error.js";

const keysMax = 100_000;

/** API keys in memory: gone with the process. At most 100,000; one more is `storage_unavailable`. */
export function createVolatileKeyStore(): KeyStore {
  const byId = new Map<string, ApiKeyRecord>();
  const idByHash = new Map<string, string>();

  const put = (record: ApiKeyRecord): ApiKeyRecord => {
    const kept = frozenKey(record);
    byId.set(kept.id, kept);
    idByHash.set(kept.hash, kept.id);
    return kept;
  };
  const insert = (record: ApiKeyRecord): void => {
    if (byId.has(record.id) || idByHash.has(record.hash)) {
      throw new ServiceError("conflict", "An API key with this id or secret exists.");
    }
    if (byId.size >= keysMax) {
      throw new ServiceError("storage_unavailable", `The volatile store holds its ${keysMax} API keys.`);
    }
    put(record);
  };

  return {
    async findByHash(hash) {
      const id = idByHash.get(hash);
      return id === undefined ? null : (byId.get(id) ?? null);
    },
    async insert(record) {
      insert(record);
    },
    async insertFirst(record) {
      if (byId.size > 0) return false;
      insert(record);
      return true;
    },
    async list({ account, limit, after }) {
      const place = after === null ? null : parseCursor(after);
      const rest = [...byId.values()]
        .filter((record) => account === null || record.account === account)
        .filter((record) => place === null || byNewest(place, record) < 0)
        .sort(byNewest);
      const records = rest.slice(0, limit);
      const last = records.at(-1);
      return { records, next: last !== undefined && rest.length > limit ? cursorOf(last) : null };
    },
    async revoke(id, atMs) {
      const record = byId.get(id);
      if (record === undefined) return null;
      return put({ ...record, revokedAtMs: record.revokedAtMs ?? atMs });
    },
    async touch(id, atMs) {
      const record = byId.get(id);
      if (record !== undefined) put({ ...record, lastUsedAtMs: Math.max(record.lastUsedAtMs ?? 0, atMs) });
    },
  };
}
