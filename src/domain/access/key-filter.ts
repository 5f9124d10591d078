/** Which keys a list shows, told the same way for every driver. */
import { checkLength } from "../call/field-checks.js";
import type { ApiKeyRecord } from "./key-store.js";

export type KeyState = "active" | "expired" | "revoked";

/** Null, each: any. */
export interface KeyFilter {
  readonly account: string | null;
  /** As `foldCase` gives it: found in the name, the account, the id, the prefix or the last four characters. */
  readonly search: string | null;
  readonly state: KeyState | null;
  /** The instant at which keys are in the state. */
  readonly nowMs: number;
}

const searchCharsMax = 128;

/** What to look for; null for nothing. Throws ServiceError when it is too long. */
export function checkSearch(text: string): string | null {
  checkLength(text, "search", searchCharsMax);
  const wanted = foldCase(text.trim());
  return wanted === "" ? null : wanted;
}

/** A to Z as a to z and nothing else, which every store can do alike. */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Whether the filter lets a key through. */
export function isListed(record: ApiKeyRecord, { account, search, state, nowMs }: KeyFilter): boolean {
  if (account !== null && record.account !== account) return false;
  if (state !== null && keyStateOf(record, nowMs) !== state) return false;
  return search === null || searchedOf(record).some((text) => foldCase(text).includes(search));
}

function keyStateOf({ revokedAtMs, expiresAtMs }: ApiKeyRecord, nowMs: number): KeyState {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

function searchedOf({ name, account, id, prefix, last4 }: ApiKeyRecord): readonly string[] {
  return [name, account, id, prefix, last4];
}
