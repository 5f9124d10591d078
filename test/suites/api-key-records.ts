import type { ApiKeyRecord, KeyFilter, KeyStore } from "../../src/domain/access/key-store.js";
import { unlimited } from "../../src/domain/call/rate-limits.js";

const firstAtMs = Date.UTC(2026, 0, 1);

/** A key record that is unique by its number; a higher number means a later creation. */
export function keyRecord(number: number, changes: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const digits = String(number).padStart(8, "0");
  return {
    id: `key_${digits}`,
    name: `key number ${number}`,
    account: "default",
    scope: "read_write",
    hash: digits.repeat(8),
    prefix: "sk-uis-abc",
    last4: "wxyz",
    models: [],
    limits: unlimited,
    createdAtMs: firstAtMs + number,
    createdBy: "administrator",
    expiresAtMs: null,
    revokedAtMs: null,
    lastUsedAtMs: null,
    ...changes,
  };
}

export const anyKey: KeyFilter = { account: null, search: null, state: null, nowMs: firstAtMs };

/** Every key that matches the filter, newest first. */
export async function listKeys(
  keys: Pick<KeyStore, "list">,
  filter: Partial<KeyFilter> = {},
  limit = 100,
): Promise<ApiKeyRecord[]> {
  const found: ApiKeyRecord[] = [];
  let after: string | null = null;
  do {
    const page = await keys.list({ filter: { ...anyKey, ...filter }, limit, after });
    found.push(...page.records);
    after = page.next;
  } while (after !== null);
  return found;
}
