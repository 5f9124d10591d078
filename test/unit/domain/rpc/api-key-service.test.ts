import { randomBytes } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import {
  type ApiKey,
  ApiKeySchema,
  LimitsSchema,
  Priority,
  Scope,
} from "../../../../gen/unified/admin/v1/api_key_pb.js";
import {
  CreateApiKeyRequestSchema,
  GetApiKeyRequestSchema,
  ListApiKeysRequestSchema,
  RevokeApiKeyRequestSchema,
  RotateApiKeyRequestSchema,
  UpdateApiKeyRequestSchema,
} from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { ApiKeys } from "../../../../src/domain/access/api-keys.js";
import { Audit } from "../../../../src/domain/access/audit.js";
import { createFairShares } from "../../../../src/domain/call/fair-shares.js";
import { createApiKeyService } from "../../../../src/domain/rpc/api-key-service.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { silentLog } from "../../../support/silent-log.js";

const nowMs = Date.UTC(2026, 0, 1);

async function open() {
  const { keys, audit: records } = openMemoryState();
  const [ids, clock] = [createRandomIds(), new FakeClock(nowMs)];
  const now = () => clock.now();
  const apiKeys = new ApiKeys({ keys, now, ids, random: randomBytes });
  const { handlers } = createApiKeyService(
    apiKeys,
    new Audit({ records, now, ids, log: silentLog }),
    createFairShares(),
  );
  const { ctx } = await (await createCoreHarness({ engines: [new HandEngine()] })).open("create_api_key");
  const call = async (name: string, request: object) => {
    const handler = handlers.find(({ method }) => method.localName === name);
    if (handler?.kind !== "unary") throw new Error(`no method ${name}`);
    const response = await handler.call(request as never, ctx, () => {});
    return create(handler.method.output, response) as unknown as Record<string, unknown>;
  };
  const makeKey = (init: MessageInitShape<typeof CreateApiKeyRequestSchema>) =>
    call("createApiKey", create(CreateApiKeyRequestSchema, { name: "ci", scope: Scope.READ_WRITE, ...init }));
  const acts = async () => {
    const listed = await records.list({ limit: 100, after: null });
    return listed.records.map(({ action, target, details }) => ({ action, target, details }));
  };
  return { call, makeKey, acts, clock };
}

describe("ApiKeyService", () => {
  it("a created key is returned with its secret, a listed key without it (KEY-2)", async () => {
    const { call, makeKey } = await open();
    const { apiKey, secret } = await makeKey({ models: ["m*"], expiresAt: timestampFromMs(nowMs + 1_000) });
    expect(secret).toMatch(/^sk-uis-/);
    expect(apiKey).toMatchObject({
      name: "ci",
      account: "default",
      scope: Scope.READ_WRITE,
      prefix: String(secret).slice(0, 10),
      last4: String(secret).slice(-4),
      models: ["m*"],
      createdAt: timestampFromMs(nowMs),
      expiresAt: timestampFromMs(nowMs + 1_000),
    });
    const { apiKeys } = await call("listApiKeys", create(ListApiKeysRequestSchema));
    expect(apiKeys).toEqual([apiKey]);
    expect(JSON.stringify(apiKeys, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
      secret,
    );
  });

  it("a key has the default priority unless another one is given, and an update without a priority keeps it (KEY-24)", async () => {
    const { call, makeKey, acts } = await open();
    expect((await makeKey({}))["apiKey"]).toMatchObject({ priority: Priority.DEFAULT });
    const { apiKey } = await makeKey({ priority: Priority.BATCH });
    const { id, priority } = apiKey as ApiKey;
    expect(priority).toBe(Priority.BATCH);
    const update = (change: MessageInitShape<typeof UpdateApiKeyRequestSchema>) =>
      call("updateApiKey", create(UpdateApiKeyRequestSchema, { id, ...change }));
    expect((await update({ name: "renamed" }))["apiKey"]).toMatchObject({ priority: Priority.BATCH });
    expect((await update({ priority: Priority.INTERACTIVE }))["apiKey"]).toMatchObject({
      priority: Priority.INTERACTIVE,
    });
    expect(await acts()).toContainEqual({ action: "api_key.update", target: id, details: { priority: "interactive" } });
    await expect(update({ priority: 9 as Priority })).rejects.toMatchObject({
      code: "invalid_value",
      param: "priority",
    });
  });

  it("a revoked key keeps its record with the time of revocation", async () => {
    const { call, makeKey } = await open();
    const { apiKey } = await makeKey({ scope: Scope.READ });
    const { id } = create(ApiKeySchema, apiKey as MessageInitShape<typeof ApiKeySchema>);
    const answer = await call("revokeApiKey", create(RevokeApiKeyRequestSchema, { id }));
    expect(answer["apiKey"]).toMatchObject({ id, scope: Scope.READ, revokedAt: timestampFromMs(nowMs) });
  });

  it("a key is rejected without a scope, with an unknown one, and with invalid limits", async () => {
    const { makeKey } = await open();
    await expect(makeKey({ scope: Scope.UNSPECIFIED })).rejects.toMatchObject({
      code: "missing_required_parameter",
      param: "scope",
    });
    await expect(makeKey({ scope: 9 as Scope })).rejects.toMatchObject({ code: "invalid_value", param: "scope" });
    await expect(makeKey({ limits: { concurrency: 0 } })).rejects.toMatchObject({
      code: "integer_below_min_value",
      param: "limits.concurrency",
    });
  });

  it("an update changes the given fields, and removes limits that its `limits` field does not contain", async () => {
    const { call, makeKey } = await open();
    const expiresAt = timestampFromMs(nowMs + 1_000);
    const made = await makeKey({ models: ["a"], limits: { requestsPerMinute: 5n, concurrency: 2 }, expiresAt });
    const { id } = made["apiKey"] as ApiKey;
    const update = async (change: MessageInitShape<typeof UpdateApiKeyRequestSchema>) =>
      (await call("updateApiKey", create(UpdateApiKeyRequestSchema, { id, ...change })))["apiKey"];

    expect(await update({})).toEqual(made["apiKey"]);
    expect(await update({ limits: { tokensPerMinute: 9n } })).toMatchObject({
      models: ["a"],
      limits: create(LimitsSchema, { tokensPerMinute: 9n }),
      expiresAt,
    });
    const after = (await update({ models: {}, name: "new", neverExpires: true })) as ApiKey;
    expect(after).toMatchObject({ models: [], name: "new", limits: create(LimitsSchema, { tokensPerMinute: 9n }) });
    expect(after.expiresAt).toBeUndefined();
    await expect(update({ neverExpires: true, expiresAt })).rejects.toMatchObject({ param: "never_expires" });
  });

  it("a rotation returns the successor with its secret and the old key's expiry (KEY-16)", async () => {
    const { call, makeKey } = await open();
    const { id } = (await makeKey({ limits: { concurrency: 3 } }))["apiKey"] as ApiKey;
    const overlap = durationFromMs(5_000);
    const rotated = await call("rotateApiKey", create(RotateApiKeyRequestSchema, { id, overlap }));
    expect(rotated["secret"]).toMatch(/^sk-uis-/);
    expect(rotated["apiKey"]).toMatchObject({ name: "ci", limits: create(LimitsSchema, { concurrency: 3 }) });
    expect(rotated["oldExpiresAt"]).toEqual(timestampFromMs(nowMs + 5_000));
    const old = await call("getApiKey", create(GetApiKeyRequestSchema, { id }));
    expect((old["apiKey"] as ApiKey).expiresAt).toEqual(timestampFromMs(nowMs + 5_000));
  });

  it("each change of a key is one audit record with the new values and no secret (KEY-23)", async () => {
    const { call, makeKey, acts, clock } = await open();
    const made = await makeKey({ account: "team", models: ["a", "b*"], limits: { requestsPerMinute: 5n } });
    const { id } = made["apiKey"] as ApiKey;
    for (const [name, request] of [
      ["updateApiKey", create(UpdateApiKeyRequestSchema, { id, name: "new" })],
      ["rotateApiKey", create(RotateApiKeyRequestSchema, { id })],
      ["revokeApiKey", create(RevokeApiKeyRequestSchema, { id })],
      ["getApiKey", create(GetApiKeyRequestSchema, { id })],
      ["listApiKeys", create(ListApiKeysRequestSchema)],
    ] as const) {
      clock.advance(1);
      await call(name, request);
    }
    const records = await acts();
    expect(records.map(({ action, target }) => `${action} ${target}`)).toEqual([
      `api_key.revoke ${id}`,
      `api_key.rotate ${id}`,
      `api_key.update ${id}`,
      `api_key.create ${id}`,
    ]);
    expect(records.at(-1)?.details).toEqual({
      account: "team",
      scope: "read_write",
      name: "ci",
      models: "a,b*",
      requests_per_minute: "5",
      tokens_per_minute: "default",
      concurrency: "default",
      expires_at: "never",
    });
    expect(records[2]?.details).toEqual({ name: "new" });
    expect(JSON.stringify(records)).not.toContain(String(made["secret"]).slice(8, 20));
  });
});
