import { type Operation, operationRow } from "../../contract/operations.js";
import type { Browser } from "../call/browser.js";
import { mayDo, type Principal } from "../call/principal.js";
import { ServiceError } from "../call/service-error.js";

const needText = {
  none: "nothing",
  read: "the scope `read`",
  read_write: "the scope `read_write`",
  administrator: "the administrator's credential",
  admin_token: "the administrator's token",
} as const;

/**
 * Throws ServiceError `insufficient_permissions` unless the principal may do the operation, and unless it was its own
 * page that asked: a session's cookie comes with every request of the browser, whichever page makes it (KEY-22).
 */
export function requireAllowed(operation: Operation, principal: Principal, browser: Browser | undefined): void {
  const { need, isReading = need === "read" } = operationRow(operation);
  if (!mayDo(principal, need, isReading)) throw notAllowed(principal, needText[need]);
  if (browser === undefined || isByToken(principal)) return;
  const { isSameOrigin } = browser;
  // A program may sign in without naming an origin; a browser names it in every request that can change something.
  const isNeeded = !isReading && need !== "none";
  if (isSameOrigin === false || (isNeeded && isSameOrigin === undefined)) {
    throw new ServiceError(
      "insufficient_permissions",
      "A session is good for pages of this server only: the header Origin must name the address that was called.",
    );
  }
}

/** Whether the credential was sent on purpose, in a header that browsers do not fill in. */
function isByToken(principal: Principal): boolean {
  return principal.kind === "api_key" || (principal.kind === "administrator" && principal.sessionId === null);
}

function notAllowed(principal: Principal, needed: string): ServiceError {
  const who = principal.kind === "api_key" ? "This API key" : "This session";
  return new ServiceError("insufficient_permissions", `${who} may not do this: it needs ${needed}.`);
}
