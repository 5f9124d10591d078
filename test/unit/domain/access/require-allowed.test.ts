import { describe, expect, it } from "vitest";
import type { Operation } from "../../../../src/contract/operations.js";
import { requireAllowed } from "../../../../src/domain/access/authenticator.js";
import type { Browser } from "../../../../src/domain/call/call-context.js";
import { nobody, type Principal, tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";

const session: Principal = {
  kind: "administrator",
  keyId: null,
  account: "default",
  sessionId: "ses_1",
  role: "admin",
};
const key: Principal = {
  kind: "api_key",
  keyId: "key_1",
  account: "default",
  scope: "read_write",
  models: [],
  limits: unlimited,
};

function from(isSameOrigin: boolean | undefined): Browser {
  return { sessionToken: "token", isSameOrigin, userAgent: "", keepSession: () => {}, keepKnown: () => {} };
}

const isAllowed = (operation: Operation, principal: Principal, browser?: Browser): boolean => {
  try {
    requireAllowed(operation, principal, browser);
    return true;
  } catch (error) {
    expect(error).toMatchObject({ code: "insufficient_permissions" });
    return false;
  }
};

describe("requireAllowed", () => {
  it.each([
    ["create_api_key", true, true],
    ["create_api_key", undefined, false],
    ["create_api_key", false, false],
    ["create_chat_completion", undefined, false],
    ["list_api_keys", true, true],
    ["list_api_keys", undefined, true],
    ["list_api_keys", false, false],
    ["list_models", undefined, true],
    ["list_models", false, false],
  ] as const)(
    "%s by a session from the same origin (%s) is allowed: %s (KEY-22)",
    (operation, isSameOrigin, allowed) => {
      expect(isAllowed(operation, session, from(isSameOrigin))).toBe(allowed);
    },
  );

  it("a foreign page cannot sign a user in; a program without an origin can (KEY-22)", () => {
    expect(isAllowed("sign_in", nobody, from(false))).toBe(false);
    expect(isAllowed("sign_in", nobody, from(undefined))).toBe(true);
    expect(isAllowed("sign_in", nobody, from(true))).toBe(true);
  });

  it("a credential in the header is accepted from every page: no browser sends it automatically", () => {
    expect(isAllowed("create_api_key", tokenAdministrator, from(false))).toBe(true);
    expect(isAllowed("create_chat_completion", key, from(false))).toBe(true);
    expect(isAllowed("create_api_key", key, from(true))).toBe(false);
  });
});
