import { describe, expect, it } from "vitest";
import {
  Administrator,
  type PasswordHashing,
  Passwords,
  type SignInCaller,
} from "../../../../src/domain/access/administrator.js";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { sha256Hex } from "../../../../src/lib/crypto.js";
import { eventually } from "../../../support/eventually.js";
import { createAccess } from "./access-fixture.js";

const password = "correct horse battery";
const from = { address: "192.0.2.7", userAgent: "a browser" };

/** Replaces the real hash, which takes some tenths of a second and has its own test. */
const cheap: PasswordHashing = {
  hashPassword: async (text) => sha256Hex(text),
  isPassword: async (text, kept) => sha256Hex(text) === kept,
  noPassword: "",
};

function open(hashing: PasswordHashing = cheap) {
  const access = createAccess();
  const { state, sessions, clock, now, ids } = access;
  const { settings } = state;
  const administrator = new Administrator({ settings, sessions, passwords: new Passwords(hashing), clock, now, ids });
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

  it("stores the operator's password once, and ends all sessions if a later start sets another one (KEY-20)", async () => {
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
    const change = { next, sessionId: mine.record.id, address: from.address };
    const wrong = administrator.changePassword({ ...change, current: "not the password" });
    await expect(wrong).rejects.toMatchObject({ code: "invalid_api_key" });
    await administrator.changePassword({ ...change, current: password });
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

  it("after five wrong set-up links an address is rejected, unless its link is valid (KEY-21, E-13)", async () => {
    const { administrator } = open();
    const { token } = await administrator.createSetupLink();
    for (const code of [...Array.from({ length: 5 }, () => "invalid_api_key"), "rate_limit_exceeded"]) {
      await expect(administrator.completeSetup("guess", password, from)).rejects.toMatchObject({ code });
    }
    await administrator.completeSetup(token, password, from);
  });

  it("the 21st wrong attempt of a network within a minute is rejected, and other networks are not (KEY-21, E-13)", async () => {
    const { administrator } = open();
    await administrator.setPassword(password);
    const wrong = (host: number) =>
      administrator.signIn(`name-${host}`, "not the password", { ...from, address: `198.51.100.${host}` });
    for (let host = 0; host < 20; host++) await expect(wrong(host)).rejects.toMatchObject({ code: "invalid_api_key" });
    await expect(wrong(20)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    await administrator.signIn("admin", password, { ...from, address: "198.51.101.1" });
  });

  it("many wrong passwords for a name delay unknown callers, and reject no right password (KEY-21, E-13)", async () => {
    const { administrator, clock } = open();
    await administrator.setPassword(password);
    for (let host = 0; host < 5; host++) {
      const attempt = administrator.signIn("admin", "not the password", { ...from, address: `198.51.${host}.1` });
      await expect(attempt).rejects.toMatchObject({ code: "invalid_api_key" });
    }
    const right = administrator.signIn("admin", password, from);
    const order: string[] = [];
    void right.then(() => order.push("signed in"));
    await eventually(() => clock.pending === 1, "the attempt is delayed");
    clock.advance(2_999);
    order.push("three seconds");
    clock.advance(1);
    await right;
    expect(order).toEqual(["three seconds", "signed in"]);
    // The address is known now, so it is not delayed.
    await administrator.signIn("admin", password, from);
  });

  it("an address and a browser that have signed in before are never rejected for wrong passwords of others (KEY-21, E-13)", async () => {
    const { administrator, clock } = open();
    await administrator.setPassword(password);
    const { browserToken } = await administrator.signIn("admin", password, from);
    const wrong = (caller: SignInCaller) => administrator.signIn("admin", "not the password", caller);
    for (let tries = 0; tries < 5; tries++)
      await expect(wrong(from)).rejects.toMatchObject({ code: "invalid_api_key" });
    // The attempts of a known browser are counted separately from its address, so it is not delayed.
    await administrator.signIn("admin", password, { ...from, browserToken });
    // Without the browser's cookie the address is delayed.
    const sixth = wrong(from);
    const seventh = administrator.signIn("admin", password, from);
    for (const [attempt, isRight] of [
      [sixth, false],
      [seventh, true],
    ] as const) {
      const outcome = Promise.allSettled([attempt]);
      await eventually(() => clock.pending === 1, "the attempt is delayed");
      clock.advance(3_000);
      expect((await outcome)[0].status).toBe(isRight ? "fulfilled" : "rejected");
    }

    const elsewhere = { ...from, address: "203.0.113.9" };
    for (let tries = 0; tries < 5; tries++) {
      await expect(wrong(elsewhere)).rejects.toMatchObject({ code: "invalid_api_key" });
    }
    await expect(administrator.signIn("admin", password, elsewhere)).rejects.toMatchObject({
      code: "rate_limit_exceeded",
    });
    const known = await administrator.signIn("admin", password, { ...elsewhere, browserToken });
    expect(known.browserToken).toBe(browserToken);
    // An invented browser token does not make its caller known.
    const madeUp = { ...from, address: "203.0.113.10", browserToken: "x".repeat(43) };
    const unknown = administrator.signIn("admin", password, madeUp);
    await eventually(() => clock.pending === 1, "the attempt is delayed");
    clock.advance(3_000);
    expect((await unknown).browserToken).not.toBe(madeUp.browserToken);
  });

  it("at most 8 attempts of a known caller wait, and a client that leaves gives up its attempt (E-13)", async () => {
    const { administrator, clock } = open();
    await administrator.setPassword(password);
    await administrator.signIn("admin", password, from);
    const wrong = (signal?: AbortSource) =>
      administrator.signIn("admin", "not the password", signal === undefined ? from : { ...from, signal });
    for (let tries = 0; tries < 5; tries++) await expect(wrong()).rejects.toMatchObject({ code: "invalid_api_key" });
    const leaving = new AbortSource();
    const first = wrong(leaving);
    await eventually(() => clock.pending === 1, "the attempt is delayed");
    const waiting = Array.from({ length: 8 }, () => Promise.allSettled([wrong()]));
    await expect(wrong()).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    leaving.abort(new Ended("client_left"));
    await expect(first).rejects.toMatchObject({ code: "client_closed_request" });
    for (const outcome of waiting) {
      await eventually(() => clock.pending === 1, "the attempt is delayed");
      clock.advance(3_000);
      expect((await outcome)[0]).toMatchObject({ reason: { code: "invalid_api_key" } });
    }
  });

  it("keeps known addresses and digests of browsers' tokens for 90 days, at most 100 of each (E-13)", async () => {
    const { administrator, clock, state } = open();
    await administrator.setPassword(password);
    const { browserToken } = await administrator.signIn("admin", password, from);
    const stored = async () => (await state.settings.get("admin.sign_ins"))?.value ?? "";
    expect(await stored()).toContain(from.address);
    expect(await stored()).not.toContain(browserToken);
    for (let host = 0; host < 100; host++) {
      clock.advance(1_000);
      await administrator.signIn("admin", password, { ...from, address: `10.${host}.0.1` });
    }
    const { hosts, browsers } = JSON.parse(await stored()) as Record<string, unknown[]>;
    expect([hosts?.length, browsers?.length]).toEqual([100, 100]);
    expect(await stored()).not.toContain(from.address);
    clock.advance(91 * 86_400_000);
    await administrator.signIn("admin", password, from);
    expect(JSON.parse(await stored())).toMatchObject({ hosts: [[from.address, clock.now()]] });
  });

  it("a sign-in begins no session if the password is replaced during it (E-17)", async () => {
    let replace = async (): Promise<void> => {};
    const isPassword = async (text: string, kept: string): Promise<boolean> => {
      const isSame = await cheap.isPassword(text, kept);
      await replace();
      return isSame;
    };
    const { administrator, sessions, state } = open({ ...cheap, isPassword });
    await administrator.setPassword(password);
    replace = async () => {
      const { settings } = state;
      await settings.put(
        "admin.password",
        sha256Hex("another"),
        (await settings.get("admin.password"))?.version ?? null,
      );
      await sessions.endOthers("admin", null);
    };
    await expect(administrator.signIn("admin", password, from)).rejects.toMatchObject({ code: "invalid_api_key" });
    expect(await sessions.list()).toEqual([]);
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
