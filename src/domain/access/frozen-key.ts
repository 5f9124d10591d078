import type { ApiKeyRecord } from "./key-store.js";

/** A record that nobody can change by accident: caches hand out the same object to every request (KEY-12). */
export function frozenKey(record: ApiKeyRecord): ApiKeyRecord {
  return Object.freeze({
    ...record,
    models: Object.freeze([...record.models]),
    limits: Object.freeze({ ...record.limits }),
  });
}
