import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { adminTokens, createAccess } from "./access-fixture.js";

const readWrite = { name: "test", scope: "read_write" } as const;
const tight = { requestsPerMinute: 60, tokensPerMinute: null, concurrency: null };

async function refusalOf(attempt: unknown): Promise<ServiceError> {
  const thrown = await Promise.resolve(attempt).then(
    () => null,
    (error: unknown) => error,
  );
  if (thrown instanceof ServiceError) return thrown;
  throw new Error(`expected a ServiceError, not ${String(thrown)}`);
}

function mistyped(secret: string): string {
  return secret.slice(0, -1) + (secret.endsWith("0") ? "1" : "0");
}

/** Uses of keys that end when the store has written them, which it does at the end of a turn of the event loop. */
function createUses() {
  const access = createAccess();
  const useAndStore = async (secret: string): Promise<void> => {
    await access.use(secret);
    await nextTurn();
  };
  return { ...access, useAndStore };
}

describe("Authenticator", () => {
  it("resolves a key to its principal", async () => {
    const { apiKeys, use } = createAccess();
    const { record, secret } = await apiKeys.create({
      name: "x",
      scope: "read",
      account: "team",
      models: ["a", "b*"],
      limits: tight,
    });
    expect(await use(secret)).toEqual({
      kind: "api_key",
      keyId: record.id,
      account: "team",
      scope: "read",
      models: ["a", "b*"],
      limits: { requestsPerMinute: 60, tokensPerMinute: null, concurrency: null },
      expiresAtMs: null,
      priority: "default",
    });
  });

  it("returns frozen principals (KEY-12)", async () => {
    const { apiKeys, use } = createAccess();
    const { secret } = await apiKeys.create({ ...readWrite, models: ["a"], limits: tight });
    const principal = await use(secret);
    expect(Object.isFrozen(principal)).toBe(true);
    if (principal.kind !== "api_key") throw new Error("expected the principal of a key");
    expect(Object.isFrozen(principal.models) && Object.isFrozen(principal.limits)).toBe(true);
  });

  it("accepts the scheme Bearer in upper and lower case (GEN-3)", async () => {
    const { apiKeys, present } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    for (const scheme of ["Bearer", "bearer", "BEARER", "bEaReR"]) {
      expect(await present(`${scheme} ${secret}`)).toMatchObject({ keyId: record.id });
    }
  });

  it("refuses every header that is not exactly the scheme, one space and a key (KEY-4, GEN-3)", async () => {
    const { apiKeys, present, keys } = createAccess();
    const { secret } = await apiKeys.create(readWrite);
    const basic = `Basic ${Buffer.from(`user:${secret}`).toString("base64")}`;
    const bad = ["", "Bearer", "Bearer ", `Bearer  ${secret}`, ` Bearer ${secret}`, `Bearer ${secret} `, secret, basic];
    bad.push(`Bearer\t${secret}`, `Bearer ${secret} more`, `Bearer ${secret},`, `Token ${secret}`, `Bearer: ${secret}`);
    bad.push(`Bearer ${secret}\n`, `Bearer ${"x".repeat(257)}`, "Bearer short", `Bearer "${secret}"`);
    for (const header of [undefined, ...bad]) {
      expect(await refusalOf(present(header)), header).toMatchObject({ code: "invalid_api_key" });
    }
    expect(keys.lookUps).not.toContain("");
  });

  it("gives the same error for every kind of bad key (KEY-5)", async () => {
    const { apiKeys, present, clock, use } = createAccess();
    const revoked = await apiKeys.create(readWrite);
    await apiKeys.revoke(revoked.record.id);
    const expired = await apiKeys.create({ ...readWrite, expiresAtMs: clock.now() + 1_000 });
    clock.advance(1_000);
    const stranger = await createAccess().apiKeys.create(readWrite);
    const refusals = await Promise.all(
      [
        present(undefined),
        use("no-such-key"),
        use(stranger.secret),
        use(mistyped(stranger.secret)),
        use(revoked.secret),
        use(expired.secret),
      ].map((attempt) => refusalOf(attempt)),
    );
    const said = refusals.map(({ code, message, param, type }) => JSON.stringify({ code, message, param, type }));
    expect(new Set(said).size).toBe(1);
    expect(refusals[0]?.code).toBe("invalid_api_key");
  });

  it("a key of our form with a wrong checksum never reaches the store (KEY-5)", async () => {
    const { apiKeys, keys, use } = createAccess();
    const { secret } = await apiKeys.create(readWrite);
    await refusalOf(use(mistyped(secret)));
    expect(keys.lookUps).toEqual([]);
  });

  it("unknown and revoked keys need the same number of look-ups (KEY-5)", async () => {
    const { apiKeys, keys, use } = createAccess();
    const revoked = await apiKeys.create(readWrite);
    await apiKeys.revoke(revoked.record.id);
    const unknown = await createAccess().apiKeys.create(readWrite);
    for (const { secret } of [revoked, unknown]) {
      keys.lookUps.length = 0;
      await refusalOf(use(secret));
      await refusalOf(use(secret));
      expect(keys.lookUps).toHaveLength(1);
    }
  });

  it("resolves each administrator token to the administrator, without a look-up in the store", async () => {
    const { keys, use } = createAccess();
    for (const token of adminTokens) {
      expect(await use(token)).toEqual(tokenAdministrator);
      expect(keys.lookUps).toEqual([]);
      for (const almost of [token.slice(0, -1), `${token}x`, token.toUpperCase()]) {
        expect(await refusalOf(use(almost))).toMatchObject({ code: "invalid_api_key" });
      }
      keys.lookUps.length = 0;
    }
  });

  it("a revoked key is rejected at the next request, however recently it was cached (KEY-9)", async () => {
    const { apiKeys, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    await use(secret);
    await apiKeys.revoke(record.id);
    expect(await refusalOf(use(secret))).toMatchObject({ code: "invalid_api_key" });
  });

  it("a key is rejected from the millisecond of its expiry, also while it is cached (KEY-16)", async () => {
    const { apiKeys, clock, use } = createAccess();
    const { secret } = await apiKeys.create({ ...readWrite, expiresAtMs: clock.now() + 10_000 });
    await use(secret);
    clock.advance(9_999);
    await use(secret);
    clock.advance(1);
    expect(await refusalOf(use(secret))).toMatchObject({ code: "invalid_api_key" });
  });

  it("an update applies from the next request (KEY-9)", async () => {
    const { apiKeys, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    await use(secret);
    await apiKeys.update(record.id, { models: ["a"], limits: tight });
    expect(await use(secret)).toMatchObject({ models: ["a"], limits: tight });
  });

  it("after a rotation both keys work until the overlap is over, to the second (KEY-16)", async () => {
    const { apiKeys, clock, use } = createAccess();
    const old = await apiKeys.create(readWrite);
    await use(old.secret);
    const next = await apiKeys.rotate({ id: old.record.id, overlapMs: 60_000, expiresAtMs: null });
    clock.advance(59_999);
    expect(await use(old.secret)).toMatchObject({ keyId: old.record.id });
    expect(await use(next.secret)).toMatchObject({ keyId: next.record.id });
    clock.advance(1);
    expect(await refusalOf(use(old.secret))).toMatchObject({ code: "invalid_api_key" });
    expect(await use(next.secret)).toMatchObject({ keyId: next.record.id });
  });

  it("the 61st bad credential of an address within a minute is 429, valid keys still work (KEY-19)", async () => {
    const { apiKeys, clock, use } = createAccess();
    const { secret } = await apiKeys.create(readWrite);
    for (let tries = 0; tries < 60; tries++) {
      expect((await refusalOf(use(`bad-key-number-${tries}`))).code).toBe("invalid_api_key");
    }
    clock.advance(20_000);
    const refusal = await refusalOf(use("bad-key-number-61"));
    expect(refusal).toMatchObject({ code: "rate_limit_exceeded", type: "requests", retryAfterMs: 40_000 });
    expect(await use(secret)).toMatchObject({ kind: "api_key" });
    expect((await refusalOf(use("bad-key", "192.0.2.2"))).code).toBe("invalid_api_key");
    clock.advance(40_000);
    expect((await refusalOf(use("bad-key-number-62"))).code).toBe("invalid_api_key");
  });

  it("all addresses of an IPv6 network count together, and requests without a credential never count (KEY-19)", async () => {
    const { present, use } = createAccess();
    for (let tries = 0; tries < 100; tries++)
      expect((await refusalOf(present(undefined))).code).toBe("invalid_api_key");
    for (let tries = 0; tries < 60; tries++) await refusalOf(use(`bad-key-${tries}`, `2001:db8:0:1::${tries}`));
    expect((await refusalOf(use("bad-key-61", "2001:db8:0:1:ffff::1"))).code).toBe("rate_limit_exceeded");
    expect((await refusalOf(use("bad-key-61", "2001:db8:0:2::1"))).code).toBe("invalid_api_key");
  });

  it("resolves the cookie of a session to the administrator until the session ends (KEY-22)", async () => {
    const { authenticator, sessions } = createAccess();
    const { record, token } = await sessions.begin("admin", { address: "192.0.2.1", userAgent: "" });
    expect(await authenticator.authenticate(undefined, "192.0.2.1", token)).toMatchObject({
      kind: "administrator",
      sessionId: record.id,
      role: "admin",
    });
    await sessions.end(record.id);
    const refusal = await refusalOf(authenticator.authenticate(undefined, "192.0.2.1", token));
    expect(refusal.code).toBe("invalid_api_key");
  });

  it("a credential in the header takes precedence over any cookie (KEY-22)", async () => {
    const { apiKeys, authenticator, sessions } = createAccess();
    const { token } = await sessions.begin("admin", { address: "", userAgent: "" });
    const { record, secret } = await apiKeys.create(readWrite);
    expect(await authenticator.authenticate(`Bearer ${secret}`, "", token)).toMatchObject({ keyId: record.id });
    const refusal = await refusalOf(authenticator.authenticate("Bearer made-up-key", "", token));
    expect(refusal.code).toBe("invalid_api_key");
  });

  it("records the use of a key immediately, and then at most once a minute (KEY-15)", async () => {
    const { apiKeys, clock, keys, useAndStore } = createUses();
    const { record, secret } = await apiKeys.create(readWrite);
    const startMs = clock.now();
    for (let second = 0; second < 121; second++) {
      await useAndStore(secret);
      clock.advance(1_000);
    }
    expect(keys.touches).toEqual([0, 60_000, 120_000].map((ms) => ({ id: record.id, atMs: startMs + ms })));
  });

  it("does not wait for the use to be stored, and logs one line when that fails (KEY-15)", async () => {
    const { apiKeys, clock, keys, lines, useAndStore } = createUses();
    const { record, secret } = await apiKeys.create(readWrite);
    await useAndStore(secret);
    keys.down = true;
    for (let minute = 0; minute < 3; minute++) {
      clock.advance(60_000);
      await useAndStore(secret);
    }
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(record.id);
  });

  it("a log line names the id of a key and never the key (KEY-18)", async () => {
    const { apiKeys, clock, keys, lines, useAndStore } = createUses();
    const { record, secret } = await apiKeys.create(readWrite);
    await useAndStore(secret);
    keys.down = true;
    clock.advance(60_000);
    await useAndStore(secret);
    expect(lines).toEqual([expect.stringContaining(record.id)]);
    expect(lines[0]).not.toContain(secret.slice(8, 16));
    expect(lines[0]).not.toContain(record.hash);
  });
});
