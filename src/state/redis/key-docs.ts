import type { ApiKeyRecord } from "../../domain/access/key-store.js";
import { unlimited } from "../../domain/limits/rate-limits.js";

const form = 1;

export function keyText(record: ApiKeyRecord): string {
  return JSON.stringify({ v: form, ...record });
}

export function parseKey(text: string): ApiKeyRecord {
  const { v: _form, ...kept } = JSON.parse(text) as { v: number } & ApiKeyRecord;
  return {
    ...kept,
    // Anything else than the wider scope, a damaged document included, is the narrower one.
    scope: kept.scope === "read_write" ? "read_write" : "read",
    limits: { ...unlimited, ...kept.limits },
  };
}
