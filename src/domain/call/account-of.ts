import { accountNameForm, accountNameWords } from "../../contract/account-name.js";
import type { Principal } from "./principal.js";
import { ServiceError } from "./service-error.js";

/**
 * The account that a caller means: its own when it names none, any for the administrator. For everybody else an account
 * that is not theirs looks like one that does not exist (SEC-22). Throws ServiceError.
 */
export function accountOf(principal: Principal, asked: string): string {
  if (asked === "" || asked === principal.account) return principal.account;
  if (principal.kind === "administrator") return checkAccountName(asked);
  throw new ServiceError("not_found", "There is no such account, or it is not that of this API key.", {
    param: "account",
  });
}

/** Throws ServiceError for what no account can be called. */
export function checkAccountName(account: string): string {
  if (accountNameForm.test(account)) return account;
  throw new ServiceError("invalid_value", `'account' must be ${accountNameWords}.`, { param: "account" });
}
