import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/service-error.js";
import { adminTokens, createAccess } from "./access-fixture.js";

const readWrite = { name: "test", scope: "read_write" } as const;

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

describe("Authenticator", () => {
  it("turns the bearer of a key into its principal", async () => {
    const { apiKeys, use } = createAccess();
    const { record, secret } = await apiKeys.create({ name: "x", scope: "read", account: "team", models: ["a", "b*"] });
    expect(await use(secret)).toEqual({
      kind: "api_key",
      keyId: record.id,
      account: "team",
      scope: "read",
      models: ["a", "b*"],
    });
  });

  it("GEN-3: the scheme may be written in any case", async () => {
    const { apiKeys, authenticator } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    for (const scheme of ["Bearer", "bearer", "BEARER", "bEaReR"]) {
      expect(await authenticator.authenticate(`${scheme} ${secret}`)).toMatchObject({ keyId: record.id });
    }
  });

  it("KEY-4 GEN-3: refuses every header that is not exactly the scheme, one space and a key", async () => {
    const { apiKeys, authenticator, keys } = createAccess();
    const { secret } = await apiKeys.create(readWrite);
    const basic = `Basic ${Buffer.from(`user:${secret}`).toString("base64")}`;
    const bad = ["", "Bearer", "Bearer ", `Bearer  ${secret}`, ` Bearer ${secret}`, `Bearer ${secret} `, secret, basic];
    bad.push(`Bearer\t${secret}`, `Bearer ${secret} more`, `Bearer ${secret},`, `Token ${secret}`, `Bearer: ${secret}`);
    bad.push(`Bearer ${secret}\n`, `Bearer ${"x".repeat(257)}`, "Bearer short", `Bearer "${secret}"`);
    for (const header of [undefined, ...bad]) {
      expect(await refusalOf(authenticator.authenticate(header)), header).toMatchObject({ code: "invalid_api_key" });
    }
    expect(keys.lookUps).not.toContain("");
  });

  it("KEY-5: tells all kinds of bad keys in the same words", async () => {
    const { apiKeys, authenticator, clock, use } = createAccess();
    const revoked = await apiKeys.create(readWrite);
    await apiKeys.revoke(revoked.record.id);
    const expired = await apiKeys.create({ ...readWrite, expiresAtMs: clock.now() + 1_000 });
    clock.advance(1_000);
    const stranger = await createAccess().apiKeys.create(readWrite);
    const refusals = await Promise.all(
      [
        authenticator.authenticate(undefined),
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

  it("KEY-5: a key of our form with a wrong checksum never reaches the store", async () => {
    const { apiKeys, keys, use } = createAccess();
    const { secret } = await apiKeys.create(readWrite);
    await refusalOf(use(mistyped(secret)));
    expect(keys.lookUps).toEqual([]);
  });

  it("KEY-5: unknown and revoked keys cost the same look-ups", async () => {
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

  it("each token of the administrator is the administrator, without asking the store", async () => {
    const { keys, use } = createAccess();
    for (const token of adminTokens) {
      expect(await use(token)).toEqual({ kind: "administrator", keyId: null, account: "default" });
      expect(keys.lookUps).toEqual([]);
      for (const almost of [token.slice(0, -1), `${token}x`, token.toUpperCase()]) {
        expect(await refusalOf(use(almost))).toMatchObject({ code: "invalid_api_key" });
      }
      keys.lookUps.length = 0;
    }
  });

  it("KEY-9: a revoked key is refused at the next request, however fresh it is remembered", async () => {
    const { apiKeys, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    await use(secret);
    await apiKeys.revoke(record.id);
    expect(await refusalOf(use(secret))).toMatchObject({ code: "invalid_api_key" });
  });

  it("KEY-16: a key is refused from the millisecond of its expiry on, also while it is remembered", async () => {
    const { apiKeys, clock, use } = createAccess();
    const { secret } = await apiKeys.create({ ...readWrite, expiresAtMs: clock.now() + 10_000 });
    await use(secret);
    clock.advance(9_999);
    await use(secret);
    clock.advance(1);
    expect(await refusalOf(use(secret))).toMatchObject({ code: "invalid_api_key" });
  });

  it("KEY-15: notes the use of a key at once and then once a minute at most", async () => {
    const { apiKeys, clock, keys, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    const startMs = clock.now();
    for (let second = 0; second < 121; second++) {
      await use(secret);
      clock.advance(1_000);
    }
    expect(keys.touches).toEqual([0, 60_000, 120_000].map((ms) => ({ id: record.id, atMs: startMs + ms })));
  });

  it("KEY-15: does not wait for the use to be noted, and logs one line when that fails", async () => {
    const { apiKeys, clock, keys, lines, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    await use(secret);
    keys.down = true;
    for (let minute = 0; minute < 3; minute++) {
      clock.advance(60_000);
      await use(secret);
    }
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(record.id);
  });

  it("KEY-18: a log line names the id of a key and never the key", async () => {
    const { apiKeys, clock, keys, lines, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    await use(secret);
    keys.down = true;
    clock.advance(60_000);
    await use(secret);
    expect(lines).toEqual([expect.stringContaining(record.id)]);
    expect(lines[0]).not.toContain(secret.slice(8, 16));
    expect(lines[0]).not.toContain(record.hash);
  });
});
