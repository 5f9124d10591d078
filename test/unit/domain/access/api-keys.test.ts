import { describe, expect, it } from "vitest";
import type { ApiKeyRecord } from "../../../../src/domain/access/key-store.js";
import { type RateLimits, unlimited } from "../../../../src/domain/call/rate-limits.js";
import { createAccess } from "./access-fixture.js";

const readWrite = { name: "test", scope: "read_write" } as const;
const rotation = { overlapMs: null, expiresAtMs: null };
const limitsOf = (some: Partial<RateLimits>): RateLimits => ({ ...unlimited, ...some });
const all = { account: null, pageSize: 0, pageToken: "" };

describe("ApiKeys", () => {
  it("the secret is returned only by the call that creates the key (KEY-2)", async () => {
    const { apiKeys, keys } = createAccess();
    const { record, secret } = await apiKeys.create({ ...readWrite, account: "team", models: ["a*"] });
    const later = [
      record,
      await apiKeys.list(all),
      await keys.findByHash(record.hash),
      await apiKeys.revoke(record.id),
    ];
    expect(JSON.stringify(later)).not.toContain(secret.slice(10, -4));
    expect(record).toMatchObject({ name: "test", scope: "read_write", account: "team", models: ["a*"] });
    expect(record.id).toMatch(/^key_[0-9A-Za-z]{24}$/);
  });

  it("stores the hash, the first 10 and the last 4 characters, and nothing else of the secret (KEY-3)", async () => {
    const { apiKeys, keys } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    const kept = (await keys.findByHash(record.hash)) as ApiKeyRecord;
    expect(kept).toMatchObject({ prefix: secret.slice(0, 10), last4: secret.slice(-4) });
    expect(Object.keys(kept).toSorted()).toEqual(
      [
        "account createdAtMs createdBy expiresAtMs hash id last4 lastUsedAtMs limits models name prefix revokedAtMs scope",
      ].flatMap((names) => names.split(" ")),
    );
    const hidden = secret.slice(10, -4);
    const pieces = Array.from({ length: hidden.length - 5 }, (_, at) => hidden.slice(at, at + 6));
    expect(pieces.filter((piece) => JSON.stringify(kept).includes(piece))).toEqual([]);
  });

  it("uses the account default if none is given", async () => {
    const { apiKeys } = createAccess();
    for (const account of [undefined, null, ""]) {
      expect((await apiKeys.create({ ...readWrite, account })).record.account).toBe("default");
    }
  });

  it.each([
    ["name", { ...readWrite, name: "" }, "missing_required_parameter"],
    ["name", { ...readWrite, name: "x".repeat(129) }, "string_above_max_length"],
    ["name", { ...readWrite, name: "a\u001b[31mred" }, "invalid_value"],
    ["scope", { name: "x", scope: null }, "missing_required_parameter"],
    ["account", { ...readWrite, account: "Team" }, "invalid_value"],
    ["account", { ...readWrite, account: "a".repeat(65) }, "invalid_value"],
    ["models", { ...readWrite, models: Array.from({ length: 101 }, () => "m") }, "array_above_max_length"],
    ["models[1]", { ...readWrite, models: ["ok", ""] }, "invalid_value"],
    ["models[0]", { ...readWrite, models: ["a*b"] }, "invalid_value"],
    ["models[0]", { ...readWrite, models: ["/a"] }, "invalid_value"],
    ["models[0]", { ...readWrite, models: ["a b"] }, "invalid_value"],
    ["models[0]", { ...readWrite, models: ["m".repeat(129)] }, "invalid_value"],
    ["expires_at", { ...readWrite, expiresAtMs: Date.UTC(2025, 0, 1) }, "invalid_value"],
    ["expires_at", { ...readWrite, expiresAtMs: Number.NaN }, "invalid_value"],
    [
      "limits.requests_per_minute",
      { ...readWrite, limits: limitsOf({ requestsPerMinute: 0 }) },
      "integer_below_min_value",
    ],
    ["limits.tokens_per_minute", { ...readWrite, limits: limitsOf({ tokensPerMinute: 0.5 }) }, "invalid_type"],
    [
      "limits.tokens_per_minute",
      { ...readWrite, limits: limitsOf({ tokensPerMinute: 1e13 }) },
      "integer_above_max_value",
    ],
    ["limits.concurrency", { ...readWrite, limits: limitsOf({ concurrency: -1 }) }, "integer_below_min_value"],
  ] as const)("rejects an invalid new key: %s of %j gives %s", async (param, input, code) => {
    const { apiKeys } = createAccess();
    await expect(apiKeys.create(input)).rejects.toMatchObject({ code, param });
    expect((await apiKeys.list(all)).records).toEqual([]);
  });

  it("accepts every value at its bound", async () => {
    const { apiKeys, clock } = createAccess();
    const models = [...Array.from({ length: 98 }, (_, number) => `org/m${number}`), `${"m".repeat(128)}*`, "*"];
    const input = { name: "ü".repeat(128), scope: "read", account: "a".repeat(64), models } as const;
    const { record } = await apiKeys.create({ ...input, expiresAtMs: clock.now() + 1 });
    expect(record.models).toEqual(models);
  });

  it("lists keys, newest first, in pages with opaque tokens, 100 per page by default", async () => {
    const { apiKeys, clock } = createAccess();
    for (let number = 1; number <= 101; number++) {
      await apiKeys.create({ ...readWrite, name: `key ${number}` });
      clock.advance(1);
    }
    const first = await apiKeys.list(all);
    expect(first.records).toHaveLength(100);
    expect(first.records[0]?.name).toBe("key 101");
    expect(first.nextPageToken).toMatch(/^[A-Za-z0-9_-]+$/);
    const second = await apiKeys.list({ ...all, pageToken: first.nextPageToken });
    expect(second.records.map(({ name }) => name)).toEqual(["key 1"]);
    expect(second.nextPageToken).toBe("");
  });

  it.each([
    ["page_size", { ...all, pageSize: -1 }, "integer_below_min_value"],
    ["page_size", { ...all, pageSize: 1_001 }, "integer_above_max_value"],
    ["page_token", { ...all, pageToken: "made-up" }, "invalid_value"],
  ] as const)("rejects an invalid page: %s", async (param, page, code) => {
    await expect(createAccess().apiKeys.list(page)).rejects.toMatchObject({ code, param });
  });

  it("revokes a key permanently, and rejects an unknown id", async () => {
    const { apiKeys, clock } = createAccess();
    const { record } = await apiKeys.create(readWrite);
    const revoked = await apiKeys.revoke(record.id);
    expect(revoked.revokedAtMs).toBe(clock.now());
    clock.advance(1_000);
    expect(await apiKeys.revoke(record.id)).toEqual(revoked);
    await expect(apiKeys.revoke("key_nobody")).rejects.toMatchObject({ code: "not_found", param: "id" });
  });

  it("changes the given fields and keeps the others", async () => {
    const { apiKeys, clock } = createAccess();
    const { record } = await apiKeys.create({ ...readWrite, models: ["a"], expiresAtMs: clock.now() + 1_000 });
    const limits = limitsOf({ requestsPerMinute: 5 });
    expect(await apiKeys.update(record.id, { limits })).toEqual({ ...record, limits });
    expect(await apiKeys.update(record.id, { name: "new", models: [], expiresAtMs: null })).toEqual({
      ...record,
      limits,
      name: "new",
      models: [],
      expiresAtMs: null,
    });
    expect(await apiKeys.get(record.id)).toMatchObject({ name: "new" });
  });

  it.each([
    ["name", { name: "" }, "missing_required_parameter"],
    ["models[0]", { models: ["a*b"] }, "invalid_value"],
    ["limits.concurrency", { limits: limitsOf({ concurrency: 0 }) }, "integer_below_min_value"],
    ["expires_at", { expiresAtMs: 1 }, "invalid_value"],
  ] as const)("rejects an invalid change: %s", async (param, change, code) => {
    const { apiKeys } = createAccess();
    const { record } = await apiKeys.create(readWrite);
    await expect(apiKeys.update(record.id, change)).rejects.toMatchObject({ code, param });
    expect(await apiKeys.get(record.id)).toEqual(record);
  });

  it("rejects an unknown id in every operation", async () => {
    const { apiKeys } = createAccess();
    const id = "key_nobody";
    const attempts = [apiKeys.get(id), apiKeys.update(id, { name: "x" }), apiKeys.rotate({ ...rotation, id })];
    for (const attempt of attempts) await expect(attempt).rejects.toMatchObject({ code: "not_found", param: "id" });
  });

  it("a rotation copies everything but secret, id and expiry to the new key; the old key expires after a day by default (KEY-16)", async () => {
    const { apiKeys, clock } = createAccess();
    const limits = limitsOf({ tokensPerMinute: 7 });
    const priority = "batch";
    const old = await apiKeys.create({ name: "ci", scope: "read", account: "team", models: ["a*"], limits, priority });
    clock.advance(5);
    const next = await apiKeys.rotate({ ...rotation, id: old.record.id });
    expect(next.secret).not.toBe(old.secret);
    const { name, scope, account, models } = old.record;
    expect(next.record).toMatchObject({ name, scope, account, models, limits, priority, expiresAtMs: null });
    expect(next.record.revokedAtMs).toBeNull();
    expect(next.record.id).not.toBe(old.record.id);
    const oldExpiresAtMs = clock.now() + 86_400_000;
    expect(next.oldExpiresAtMs).toBe(oldExpiresAtMs);
    expect(await apiKeys.get(old.record.id)).toEqual({ ...old.record, expiresAtMs: oldExpiresAtMs });
  });

  it("a rotation never extends the life of the old key (KEY-16)", async () => {
    const { apiKeys, clock } = createAccess();
    const { record } = await apiKeys.create({ ...readWrite, expiresAtMs: clock.now() + 1_000 });
    expect((await apiKeys.rotate({ ...rotation, id: record.id })).oldExpiresAtMs).toBe(record.expiresAtMs);
    expect((await apiKeys.get(record.id)).expiresAtMs).toBe(record.expiresAtMs);
  });

  it.each([
    ["overlap", { overlapMs: -1 }, "integer_below_min_value"],
    ["overlap", { overlapMs: 7 * 86_400_000 + 1 }, "integer_above_max_value"],
    ["expires_at", { expiresAtMs: 1 }, "invalid_value"],
  ] as const)("rejects an invalid rotation: %s", async (param, change, code) => {
    const { apiKeys } = createAccess();
    const { record } = await apiKeys.create(readWrite);
    await expect(apiKeys.rotate({ ...rotation, id: record.id, ...change })).rejects.toMatchObject({ code, param });
    expect((await apiKeys.list(all)).records).toEqual([record]);
  });

  it("a revoked key has no successor (KEY-16)", async () => {
    const { apiKeys } = createAccess();
    const { record } = await apiKeys.create(readWrite);
    await apiKeys.revoke(record.id);
    await expect(apiKeys.rotate({ ...rotation, id: record.id })).rejects.toMatchObject({ code: "invalid_value" });
    expect((await apiKeys.list(all)).records).toHaveLength(1);
  });

  it("does not report a key as revoked if the store could not write it", async () => {
    const { apiKeys, keys, use } = createAccess();
    const { record, secret } = await apiKeys.create(readWrite);
    keys.down = true;
    await expect(apiKeys.revoke(record.id)).rejects.toMatchObject({ code: "storage_unavailable" });
    keys.down = false;
    expect(await use(secret)).toMatchObject({ keyId: record.id });
  });

  it("creates the first key of an empty store, and only that one", async () => {
    const { apiKeys, use } = createAccess();
    const first = await apiKeys.ensureFirst();
    expect(first?.record).toMatchObject({ name: "default", scope: "read_write", createdBy: "first_start" });
    expect(await use(first?.secret ?? "")).toMatchObject({ scope: "read_write", account: "default" });
    expect(await apiKeys.ensureFirst()).toBeNull();
  });

  it("registers a key of the operator's own format, and finds it again at every start (KEY-1)", async () => {
    const { apiKeys, use } = createAccess();
    const own = "my-own-key-8+";
    const [one, two] = await Promise.all([apiKeys.registerBootstrap(own), apiKeys.registerBootstrap(own)]);
    expect(two).toEqual(one);
    expect(await apiKeys.registerBootstrap(own)).toEqual(one);
    expect(await use(own)).toMatchObject({ keyId: one.id, scope: "read_write", account: "default" });
    expect(JSON.stringify(await apiKeys.list(all))).not.toContain(own);
  });

  it("a bootstrap key that was revoked stays revoked at the next start", async () => {
    const { apiKeys, use } = createAccess();
    const { id } = await apiKeys.registerBootstrap("my-own-key-8+");
    await apiKeys.revoke(id);
    expect((await apiKeys.registerBootstrap("my-own-key-8+")).revokedAtMs).not.toBeNull();
    await expect(use("my-own-key-8+")).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("rejects a bootstrap key that no client could send", async () => {
    const { apiKeys } = createAccess();
    const { secret } = await createAccess().apiKeys.create(readWrite);
    const mistyped = secret.slice(0, -1) + (secret.endsWith("0") ? "1" : "0");
    for (const bad of ["short", "with a space", "x".repeat(257), mistyped]) {
      const refusal = apiKeys.registerBootstrap(bad);
      await expect(refusal).rejects.toMatchObject({ code: "invalid_value" });
      await expect(refusal).rejects.not.toThrow(bad);
    }
    expect((await apiKeys.registerBootstrap(secret)).prefix).toBe(secret.slice(0, 10));
  });
});
