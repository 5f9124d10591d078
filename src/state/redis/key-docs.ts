import { type ApiKeyRecord, foldCase, type KeyState } from "../../domain/access/key-store.js";
import { unlimited } from "../../domain/call/rate-limits.js";

const form = 1;

/** What can be searched stands before `scope`, where the step through a list looks for it. */
export function keyText(record: ApiKeyRecord): string {
  const { id, name, account, prefix, last4, scope, ...others } = record;
  return JSON.stringify({ v: form, id, name, account, prefix, last4, scope, ...others });
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

/** A text as it stands inside of a document, case folded: one that is not there is in no field either. */
export function textInside(search: string): string {
  return foldCase(JSON.stringify(search).slice(1, -1));
}

/**
 * A text that every document of a key in this state has, or that none has. No text that somebody chose can look like it:
 * quotation marks of theirs stand behind a backslash.
 */
export function signOf(state: KeyState): { readonly text: string; readonly is: "there" | "absent" } {
  if (state === "active") return { text: '"revokedAtMs":null', is: "there" };
  return { text: state === "revoked" ? '"revokedAtMs":null' : '"expiresAtMs":null', is: "absent" };
}
