import type { Need } from "../../contract/operations.js";

export type Scope = "read" | "read_write";

/** Who calls, after the check. */
export type Principal =
  | {
      readonly kind: "api_key";
      readonly keyId: string;
      readonly account: string;
      readonly scope: Scope;
      /** Exact model ids, or prefixes that end in `*`; empty: all (KEY-8). */
      readonly models: readonly string[];
    }
  | { readonly kind: "administrator"; readonly keyId: null; readonly account: "default" };

/** Whether the principal may do what needs `need` (KEY-7). */
export function mayDo(principal: Principal, need: Need): boolean {
  if (principal.kind === "administrator") return true;
  if (need === "administrator") return false;
  return need === "read" || principal.scope === "read_write";
}

/** Whether the principal may see and use a model (KEY-8). */
export function mayUseModel(principal: Principal, modelId: string): boolean {
  if (principal.kind === "administrator" || principal.models.length === 0) return true;
  return principal.models.some((allowed) =>
    allowed.endsWith("*") ? modelId.startsWith(allowed.slice(0, -1)) : allowed === modelId,
  );
}
