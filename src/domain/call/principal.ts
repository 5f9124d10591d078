import { accountNameForm, accountNameWords } from "../../contract/names.js";
import type { Need } from "../../contract/operations.js";
import type { RateLimits } from "./rate-limits.js";
import { refuse, refuseValue } from "./service-error.js";

export type Scope = "read" | "read_write";

/** Priority of a key's requests among those that wait for a slot; limits do not depend on it. */
export type KeyPriority = "interactive" | "default" | "batch";

/** Role of a dashboard user: full access or read-only. */
export type Role = "admin" | "viewer";

/** The authenticated caller. */
export type Principal =
  | {
      readonly kind: "api_key";
      readonly keyId: string;
      readonly account: string;
      readonly scope: Scope;
      /** Exact model ids, or prefixes that end in `*`; empty: all (KEY-8). */
      readonly models: readonly string[];
      /** The key's own limits; null means the configured default for keys. */
      readonly limits: RateLimits;
      /** When the key expires, in store time. Absent or null: never. */
      readonly expiresAtMs?: number | null;
      /** Absent: default. */
      readonly priority?: KeyPriority;
    }
  | {
      readonly kind: "administrator";
      readonly keyId: null;
      readonly account: "default";
      /** Id of the dashboard session; null for the administrator's token. */
      readonly sessionId: string | null;
      readonly role: Role;
    }
  /** A caller without a credential, for operations that need none, such as signing in. */
  | { readonly kind: "nobody"; readonly keyId: null; readonly account: "default" };

/** A caller with the administrator's token. */
export const tokenAdministrator: Principal = Object.freeze({
  kind: "administrator",
  keyId: null,
  account: "default",
  sessionId: null,
  role: "admin",
});

export const nobody: Principal = Object.freeze({ kind: "nobody", keyId: null, account: "default" });

/** Id of the caller's dashboard session; null without one. */
export function sessionIdOf(principal: Principal): string | null {
  return principal.kind === "administrator" ? principal.sessionId : null;
}

/** Whether the principal may call an operation that needs `need`; `isReading` if it changes nothing (KEY-7). */
export function mayDo(principal: Principal, need: Need, isReading = need === "read"): boolean {
  if (need === "none") return true;
  switch (principal.kind) {
    case "administrator":
      if (need === "admin_token") return principal.sessionId === null;
      return principal.role === "admin" || isReading;
    case "api_key":
      return need === "read" || (need === "read_write" && principal.scope === "read_write");
    case "nobody":
      return false;
  }
}

/** Whether the principal may see and use a model (KEY-8). */
export function mayUseModel(principal: Principal, modelId: string): boolean {
  return principal.kind !== "api_key" || includesModel(principal.models, modelId);
}

/** Whether a key's list of models includes a model, or all models with a prefix `abc*`. An empty list includes all. */
export function includesModel(models: readonly string[], modelId: string): boolean {
  if (models.length === 0) return true;
  return models.some((allowed) =>
    allowed.endsWith("*") ? modelId.startsWith(allowed.slice(0, -1)) : allowed === modelId,
  );
}

/** Whether a key's list of models includes all models of another list. */
export function includesModels(models: readonly string[], others: readonly string[]): boolean {
  if (models.length === 0) return true;
  return others.length > 0 && others.every((other) => includesModel(models, other));
}

/**
 * Resolves the account of a request: the caller's own if it names none; the administrator may name any. Other callers get
 * the same error for an account of others as for one that does not exist (SEC-22). Throws ServiceError.
 */
export function accountOf(principal: Principal, asked: string): string {
  if (asked === "" || asked === principal.account) return principal.account;
  if (principal.kind === "administrator") return checkAccountName(asked);
  return refuse("not_found", "account", "There is no such account, or it is not that of this API key.");
}

/** Throws ServiceError for an invalid account name. */
export function checkAccountName(account: string, param = "account"): string {
  if (accountNameForm.test(account)) return account;
  return refuseValue(param, `'${param}' must be ${accountNameWords}.`);
}
