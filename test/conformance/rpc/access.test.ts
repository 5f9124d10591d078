import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { operationByRpcPath, operations } from "../../../src/contract/operations.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatOf, createChatCompletion, streamChatCompletion } from "./chat-requests.js";
import { openWay, type RpcWay, wayNames } from "./ways.js";

const methods = [InferenceService, CatalogService, ApiKeyService].flatMap((service) => service.methods);
const config = {
  models: [
    { id: "a", engine: "scripted", scripted: { text: "One." } },
    { id: "b", engine: "scripted", scripted: { text: "One two.", hang_after_tokens: 1 } },
  ],
};

describe.each(wayNames)("access over %s", (name) => {
  let service: RunningService;
  let way: RpcWay;
  beforeAll(async () => {
    service = await startService({ config });
    way = openWay(name, service);
  });
  afterAll(async () => {
    way.close();
    await service.close();
  });
  const bearer = (secret: string) => `Bearer ${secret}`;

  it("SEC-2: every RPC lets in exactly those that the table of operations names", async () => {
    const credentials = {
      none: null,
      malformed: "Bearer sk-uis-short",
      read: bearer(service.readKey),
      read_write: bearer(service.key),
      administrator: bearer(service.adminToken),
    };
    const mayDo = {
      read: ["read", "read_write", "administrator"],
      read_write: ["read_write", "administrator"],
      administrator: ["administrator"],
    };
    for (const method of methods) {
      const operation = operationByRpcPath.get(grpcPath(method));
      const need = operation === undefined ? undefined : operations[operation].need;
      expect(need, `${method.name} is in the table`).toBeDefined();
      for (const [who, authorization] of Object.entries(credentials)) {
        const { failure } = await way.call(method, {}, { authorization, stopAfter: 1 });
        const allowed = need !== undefined && mayDo[need].includes(who);
        const refusal = who === "none" || who === "malformed" ? status.UNAUTHENTICATED : status.PERMISSION_DENIED;
        const refused = failure?.code === status.UNAUTHENTICATED || failure?.code === status.PERMISSION_DENIED;
        expect(refused ? failure?.code : "let in", `${method.name} by ${who}`).toBe(allowed ? "let in" : refusal);
      }
    }
  });

  it("KEY-7 KEY-9: the administrator makes a key, which works until it is revoked; its running stream ends, too", async () => {
    const authorization = bearer(service.adminToken);
    const created = await way.call(
      ApiKeyService.method.createApiKey,
      { name: "made here", scope: Scope.READ_WRITE, models: ["a", "b"] },
      { authorization },
    );
    expect(created.failure).toBeNull();
    const [{ apiKey, secret } = {}] = created.messages;
    const own = { authorization: bearer(secret ?? "") };
    expect((await way.call(createChatCompletion, chatOf("a"), own)).failure).toBeNull();

    const listed = await way.call(ApiKeyService.method.listApiKeys, {}, { authorization });
    expect(listed.messages[0]?.apiKeys.map(({ id }) => id)).toContain(apiKey?.id);

    const running = way.call(streamChatCompletion, chatOf("b"), own);
    await eventually(async () => (await service.debugState()).requests.running === 1, "the stream runs");
    const revoked = await way.call(ApiKeyService.method.revokeApiKey, { id: apiKey?.id ?? "" }, { authorization });
    expect(revoked.messages[0]?.apiKey?.revokedAt).toBeDefined();
    expect((await running).failure).toMatchObject({ code: status.UNAUTHENTICATED, reason: "INVALID_API_KEY" });
    expect((await way.call(createChatCompletion, chatOf("a"), own)).failure?.code).toBe(status.UNAUTHENTICATED);
  });

  it("a request that the key service refuses names its field", async () => {
    const authorization = bearer(service.adminToken);
    const { failure } = await way.call(ApiKeyService.method.createApiKey, { scope: Scope.READ }, { authorization });
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "name", fields: ["name"] });
    const unknown = await way.call(ApiKeyService.method.revokeApiKey, { id: "key_none" }, { authorization });
    expect(unknown.failure).toMatchObject({ code: status.NOT_FOUND, reason: "NOT_FOUND" });
  });

  it("KEY-8 MODEL-7: a key sees its models only, and the others look as if they did not exist", async () => {
    const { apiKeys } = service.service.parts;
    const { secret } = await apiKeys.create({ name: "only a", scope: "read_write", models: ["a"] });
    const own = { authorization: bearer(secret) };
    const { listModels, getModel, watchModels } = CatalogService.method;
    const idsOf = (models: readonly { id: string }[] | undefined) => models?.map(({ id }) => id);
    expect(idsOf((await way.call(listModels, {})).messages[0]?.models)).toEqual(["a", "b"]);
    expect(idsOf((await way.call(listModels, {}, own)).messages[0]?.models)).toEqual(["a"]);
    expect(idsOf((await way.call(watchModels, {}, { ...own, stopAfter: 1 })).messages[0]?.models)).toEqual(["a"]);
    expect((await way.call(getModel, { id: "a" }, own)).messages[0]?.model?.id).toBe("a");

    const hidden = (await way.call(getModel, { id: "b" }, own)).failure;
    const missing = (await way.call(getModel, { id: "c" }, own)).failure;
    expect(hidden).toMatchObject({ code: status.NOT_FOUND, reason: "MODEL_NOT_FOUND" });
    expect(hidden?.message.replaceAll("b", "c")).toBe(missing?.message.replaceAll("b", "c"));
    const used = (await way.call(createChatCompletion, chatOf("b"), own)).failure;
    expect(used).toMatchObject({ code: status.NOT_FOUND, reason: "MODEL_NOT_FOUND", param: "model" });
  });

  it("a watch that the client ends leaves nothing behind", async () => {
    await way.call(CatalogService.method.watchModels, {}, { stopAfter: 1 });
    await eventually(async () => {
      const { requests, streams } = await service.debugState();
      return Object.values(requests.by_stage).every((count) => count === 0) && streams === 0;
    }, "no call is left");
  });
});
