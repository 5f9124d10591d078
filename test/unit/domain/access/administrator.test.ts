import { describe, expect, it } from "vitest";
import { Administrator, type PasswordHashing, Passwords } from "../../../../src/domain/access/administrator.js";
import { sha256Hex } from "../../../../src/lib/crypto.js";
import { createAccess } from "./access-fixture.js";

const password = "correct horse battery";
const from = { address: "192.0.2.7", userAgent: "a browser" };

/** Replaces the real hash, which takes some tenths of a second and has its own test. */
const cheap: PasswordHashing = {
  hashPassword: async (text) => sha256Hex(text),
  isPassword: async (text, kept) => sha256Hex(text) === kept,
  noPassword: "",
};

function open() {
  const access = createAccess();
  const { state, sessions, clock, now, ids } = access;
  const { settings } = state;
  const administrator = new Administrator({ settings, sessions, passwords: new Passwords(cheap), clock, now, ids });
  return { ...access, administrator };
}

describe("Administrator", () => {
  it("there is no password at first, and no one can sign in (KEY-20)", async () => {
    const { administrator } = open();
    expect(await administrator.hasPassword()).toBe(false);
    for (const guess of ["admin", "password", "changeme"]) {
      await expect(administrator.signIn("admin", guess, from)).rejects.toMatchObject({ code: "invalid_api_key" });
    }
  });

  it("a set-up link sets the password, signs in and is void afterwards (KEY-20)", async () => {
    const { administrator, sessions, state } = open();
    const { token, path } = await administrator.createSetupLink();
    expect(path).toMatch(/^\/dashboard\/setup#token=[0-9A-Za-z]{43}$/);
    expect(JSON.stringify(await state.settings.get("admin.setup"))).not.toContain(token);
    const begun = await administrator.completeSetup(token, password, from);
    expect(await sessions.authenticate(begun.token)).toMatchObject({ sessionId: begun.record.id });
    expect((await state.settings.get("admin.password"))?.value).not.toContain(password);
    await expect(administrator.completeSetup(token, password, from)).rejects.toMatchObject({ code: "invalid_api_key" });
    expect((await administrator.signIn("admin", password, from)).record.user).toBe("admin");
  });

  it("one of two simultaneous uses of a link is rejected (KEY-20)", async () => {
    const { administrator } = open();
    const { token } = await administrator.createSetupLink();
    const uses = [password, `${password} too`].map((chosen) => administrator.completeSetup(token, chosen, from));
    const outcomes = await Promise.allSettled(uses);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  });

  it("a link is valid for an hour, or until the next one is created (KEY-20)", async () => {
    const { administrator, clock } = open();
    const first = await administrator.createSetupLink();
    const second = await administrator.createSetupLink();
    await expect(administrator.completeSetup(first.token, password, from)).rejects.toMatchObject({
      code: "invalid_api_key",
    });
    clock.advance(3_600_000 - 1);
    await administrator.checkSetupToken(second.token);
    clock.advance(1);
    await expect(administrator.checkSetupToken(second.token)).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("refuses a password of fewer than 12 or more than 1,024 characters (KEY-21)", async () => {
    const { administrator } = open();
    const { token } = await administrator.createSetupLink();
    for (const bad of ["", "eleven-char", "x".repeat(1_025)]) {
      await expect(administrator.setPassword(bad)).rejects.toMatchObject({ param: "password" });
      await expect(administrator.completeSetup(token, bad, from)).rejects.toMatchObject({ param: "password" });
    }
    expect(await administrator.setPassword("x".repeat(1_024))).toBe(true);
  });

  it("the operator's password is set once; another one at a later start ends all sessions (KEY-20)", async () => {
    const { administrator, sessions } = open();
    expect(await administrator.setPassword(password)).toBe(true);
    const { token } = await administrator.signIn("admin", password, from);
    expect(await administrator.setPassword(password)).toBe(false);
    await sessions.authenticate(token);
    expect(await administrator.setPassword("another long password")).toBe(true);
    await expect(sessions.authenticate(token)).rejects.toMatchObject({ code: "invalid_api_key" });
    await expect(administrator.signIn("admin", password, from)).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("a changed password ends all sessions but the one that changed it (KEY-21)", async () => {
    const { administrator, sessions } = open();
    await administrator.setPassword(password);
    const [mine, other] = [
      await administrator.signIn("admin", password, from),
      await administrator.signIn("admin", password, from),
    ];
    const next = "another long password";
    const wrong = administrator.changePassword("not the password", next, from.address, mine.record.id);
    await expect(wrong).rejects.toMatchObject({ code: "invalid_api_key" });
    await administrator.changePassword(password, next, from.address, mine.record.id);
    await sessions.authenticate(mine.token);
    await expect(sessions.authenticate(other.token)).rejects.toMatchObject({ code: "invalid_api_key" });
    await administrator.signIn("admin", next, from);
  });

  it("the 6th wrong attempt of an address within a minute is rejected, whatever the name (KEY-21)", async () => {
    const { administrator, clock } = open();
    await administrator.setPassword(password);
    for (let tries = 0; tries < 5; tries++) {
      const attempt = administrator.signIn(`name-${tries}`, password, from);
      await expect(attempt).rejects.toMatchObject({ code: "invalid_api_key" });
    }
    clock.advance(15_000);
    await expect(administrator.signIn("admin", password, from)).rejects.toMatchObject({
      code: "rate_limit_exceeded",
      retryAfterMs: 45_000,
    });
    clock.advance(45_000);
    await administrator.signIn("admin", password, from);
  });

  it("the 6th wrong attempt for a name is rejected, whatever the address; successful ones do not count (KEY-21)", async () => {
    const { administrator } = open();
    await administrator.setPassword(password);
    for (let turn = 0; turn < 6; turn++) await administrator.signIn("admin", password, from);
    const attempts = [0, 1, 2, 3, 4].map((host) =>
      administrator.signIn("admin", "not the password", { ...from, address: `198.51.100.${host}` }),
    );
    for (const attempt of await Promise.allSettled(attempts)) {
      expect(attempt).toMatchObject({ reason: { code: "invalid_api_key" } });
    }
    await expect(administrator.signIn("admin", password, from)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
  });

  it("an unknown name and a wrong password give the same error (KEY-21)", async () => {
    const { administrator } = open();
    await administrator.setPassword(password);
    const refusals = await Promise.allSettled([
      administrator.signIn("admin", "not the password", from),
      administrator.signIn("root", password, from),
    ]);
    const [wrong, unknown] = refusals.map((refusal) => String((refusal as PromiseRejectedResult).reason));
    expect(unknown).toBe(wrong);
  });
});
