import { randomBytes } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { ApiKeySchema, Scope } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import {
  CreateApiKeyRequestSchema,
  ListApiKeysRequestSchema,
  RevokeApiKeyRequestSchema,
} from "../../../../gen/unified/admin/v1/api_key_service_pb.js";
import { ApiKeys } from "../../../../src/domain/access/api-keys.js";
import { createApiKeyService } from "../../../../src/domain/rpc/api-key-service.js";
import { createRandomIds } from "../../../../src/lib/ids.js";
import { createVolatileState } from "../../../../src/state/volatile/volatile-state.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { HandEngine } from "../../../support/hand-engine.js";

const nowMs = Date.UTC(2026, 0, 1);

async function open() {
  const revoked: string[] = [];
  const apiKeys = new ApiKeys({
    keys: createVolatileState().keys,
    clock: new FakeClock(nowMs),
    ids: createRandomIds(),
    random: randomBytes,
    onRevoked: (id) => revoked.push(id),
  });
  const { handlers } = createApiKeyService(apiKeys);
  const { ctx } = await (await createCoreHarness({ engines: [new HandEngine()] })).open("create_api_key");
  const call = async (name: string, request: object) => {
    const handler = handlers.find(({ method }) => method.localName === name);
    if (handler?.kind !== "unary") throw new Error(`no method ${name}`);
    return (await handler.call(request as never, ctx)) as unknown as Record<string, unknown>;
  };
  const makeKey = (init: MessageInitShape<typeof CreateApiKeyRequestSchema>) =>
    call("createApiKey", create(CreateApiKeyRequestSchema, { name: "ci", scope: Scope.READ_WRITE, ...init }));
  return { call, makeKey, revoked };
}

describe("ApiKeyService", () => {
  it("KEY-2: a created key is told with its secret, a listed one without", async () => {
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

  it("a revoked key keeps its record and says when", async () => {
    const { call, makeKey, revoked } = await open();
    const { apiKey } = await makeKey({ scope: Scope.READ });
    const { id } = create(ApiKeySchema, apiKey as MessageInitShape<typeof ApiKeySchema>);
    const answer = await call("revokeApiKey", create(RevokeApiKeyRequestSchema, { id }));
    expect(answer["apiKey"]).toMatchObject({ id, scope: Scope.READ, revokedAt: timestampFromMs(nowMs) });
    expect(revoked).toEqual([id]);
  });

  it("a key is refused without a scope, with one that is not known, and with limits that would not hold", async () => {
    const { makeKey } = await open();
    await expect(makeKey({ scope: Scope.UNSPECIFIED })).rejects.toMatchObject({
      code: "missing_required_parameter",
      param: "scope",
    });
    await expect(makeKey({ scope: 9 as Scope })).rejects.toMatchObject({ code: "invalid_value", param: "scope" });
    await expect(makeKey({ limits: { concurrency: 1 } })).rejects.toMatchObject({
      code: "unsupported_parameter",
      param: "limits",
    });
  });
});
