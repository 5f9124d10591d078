import type { DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { LimitService } from "../../../gen/unified/admin/v1/limit_service_pb.js";
import { ModelAdminService } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { RequestLogService } from "../../../gen/unified/admin/v1/request_log_service_pb.js";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { ThresholdService } from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import { UpstreamService } from "../../../gen/unified/admin/v1/upstream_service_pb.js";
import { UsageService } from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { DeliveryService } from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { WebhookEndpointService } from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { type Need, operationByRpcPath, operationRow, secretOperations } from "../../../src/contract/operations.js";
import { grpcPath } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatOf, createChatCompletion, streamChatCompletion } from "./chat-requests.js";
import { type CallSettings, openWay, type RpcWay, wayNames } from "./ways.js";

const methods = [
  InferenceService,
  CatalogService,
  ApiKeyService,
  SessionService,
  SystemService,
  LimitService,
  UsageService,
  ThresholdService,
  ModelAdminService,
  UpstreamService,
  RequestLogService,
  WebhookEndpointService,
  DeliveryService,
].flatMap((service): DescMethod[] => service.methods);
const config = {
  webhooks: { deliver: false, allow_private_cidrs: ["127.0.0.0/8"] },
  models: [
    { id: "a", engine: "scripted", scripted: { text: "One." } },
    { id: "b", engine: "scripted", scripted: { text: "One two.", hang_after_tokens: 1 } },
  ],
};

const mayDo: Readonly<Record<Exclude<Need, "none">, readonly string[]>> = {
  read: ["read", "read_write", "session", "admin_token"],
  read_write: ["read_write", "session", "admin_token"],
  administrator: ["session", "admin_token"],
  admin_token: ["admin_token"],
};

const bearer = (secret: string) => `Bearer ${secret}`;

function needOf(method: DescMethod): Need {
  const operation = operationByRpcPath.get(grpcPath(method));
  if (operation === undefined) throw new Error(`${method.name} is in no row of the table of operations`);
  return operationRow(operation).need;
}

/** The status of a rejected caller; null for every other outcome. */
function refusalOf(code: number | undefined): number | null {
  return code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED ? code : null;
}

/** Headers of a browser that has just signed in. */
async function signedIn({ service, http }: RunningService): Promise<CallSettings> {
  const { token } = await service.parts.sessions.begin("admin", { address: "", userAgent: "" });
  return { authorization: null, headers: { cookie: `uis_session=${token}`, origin: http } };
}

async function badKey({ service }: RunningService, kind: "malformed" | "unknown" | "revoked" | "expired") {
  const { apiKeys } = service.parts;
  if (kind === "malformed") return "sk-uis-short";
  const expiresAtMs = kind === "expired" ? Date.now() + 20 : null;
  const { record, secret } = await apiKeys.create({ name: "bad", scope: "read_write", expiresAtMs });
  if (kind === "revoked") await apiKeys.revoke(record.id);
  if (kind === "expired") await eventually(() => Date.now() > Number(record.expiresAtMs), "the key has expired");
  return kind === "unknown" ? `own-key-${secret.slice(-20)}` : secret;
}

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
  it("is possible for every RPC of the table of operations, and for no other (SEC-2)", () => {
    expect(methods.map(grpcPath).toSorted()).toEqual([...operationByRpcPath.keys()].toSorted());
  });

  it("is granted by every RPC to exactly the callers that the table of operations names (SEC-2)", async () => {
    const credentials = {
      none: () => ({ authorization: null }),
      read: () => ({ authorization: bearer(service.readKey) }),
      read_write: () => ({ authorization: bearer(service.key) }),
      session: () => signedIn(service),
      admin_token: () => ({ authorization: bearer(service.adminToken) }),
    };
    for (const method of methods) {
      const need = needOf(method);
      for (const [who, credential] of Object.entries(credentials)) {
        const settings: CallSettings = await credential();
        const { failure } = await way.call(method, {}, { ...settings, stopAfter: 1 });
        // The gRPC listener does not serve browsers, so a cookie is no credential there.
        const isNobody = who === "none" || (who === "session" && name === "grpc");
        const allowed = need === "none" || (!isNobody && mayDo[need].includes(who));
        const refusal = isNobody ? status.UNAUTHENTICATED : status.PERMISSION_DENIED;
        expect(refusalOf(failure?.code), `${method.name} by ${who}`).toBe(allowed ? null : refusal);
      }
    }
  });

  it("is refused to a malformed, unknown, revoked or expired key by every RPC that needs a key (SEC-2, KEY-4)", async () => {
    const kinds = ["malformed", "unknown", "revoked", "expired"] as const;
    const pairs = kinds.flatMap((kind) => methods.map((method) => ({ kind, method })));
    // A service answers 60 failed authentications of an address in a minute.
    for (let first = 0; first < pairs.length; first += 60) {
      const other = await startService({ config });
      const otherWay = openWay(name, other);
      const keys = new Map<string, string>();
      for (const { kind, method } of pairs.slice(first, first + 60)) {
        const key = keys.get(kind) ?? (await badKey(other, kind));
        keys.set(kind, key);
        const { failure } = await otherWay.call(method, {}, { authorization: bearer(key), stopAfter: 1 });
        const refusal = needOf(method) === "none" ? null : status.UNAUTHENTICATED;
        expect(refusalOf(failure?.code), `${method.name}, ${kind}`).toBe(refusal);
      }
      otherWay.close();
      await other.close();
    }
  });

  it("is granted to a new key until the administrator revokes it, which also ends its running stream (KEY-7, KEY-9)", async () => {
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

  it("ends for running calls and watches within a second of a rotation without overlap, an expiry or fewer models (E-17)", async () => {
    const { apiKeys } = service.service.parts;
    const startedAtMs = performance.now();
    let begun = 0;
    /** Calls with a new key. Resolves with the error's reason and its time since the start of this test. */
    const running = async <M extends DescMethod>(
      method: M,
      request: MessageInitShape<M["input"]>,
      expiresAtMs: number | null = null,
    ) => {
      const { record, secret } = await apiKeys.create({
        name: "ends",
        scope: "read_write",
        models: ["a", "b"],
        expiresAtMs,
      });
      const onMessage = (count: number): void => {
        if (count === 1) begun += 1;
      };
      const settings = { authorization: bearer(secret), onMessage };
      const end = way.call(method, request, settings).then(({ failure }) => ({
        reason: failure?.reason,
        tookMs: performance.now() - startedAtMs,
      }));
      return { id: record.id, end };
    };
    const { watchModels } = CatalogService.method;
    const lifeMs = 300;
    const expiring = await running(streamChatCompletion, chatOf("b"), Date.now() + lifeMs);
    const rotated = await running(watchModels, {});
    const narrowed = await running(streamChatCompletion, chatOf("b"));
    const watching = await running(watchModels, {});
    await eventually(() => begun === 4, "all calls have begun");
    await apiKeys.rotate({ id: rotated.id, overlapMs: 0, expiresAtMs: null });
    for (const { id } of [narrowed, watching]) await apiKeys.update(id, { models: ["a"] });
    const ends = await Promise.all([expiring, rotated, narrowed, watching].map(({ end }) => end));
    expect(ends.map(({ reason }) => reason)).toEqual(ends.map(() => "INVALID_API_KEY"));
    // The target is a second after the change; a busy machine may need five times as long.
    for (const { tookMs } of ends) expect(tookMs).toBeLessThan(lifeMs + 5_000);
  });

  it("to a new secret has `no-store` in its response; other responses do not have it (E-18)", async () => {
    const authorization = bearer(service.adminToken);
    const cachingOf = async <M extends DescMethod>(method: M, request: MessageInitShape<M["input"]>) => {
      const { messages, head, failure } = await way.call(method, request, { authorization });
      expect([method.name, failure]).toEqual([method.name, null]);
      return { message: messages[0], caching: head.get("cache-control") };
    };
    const { createApiKey, rotateApiKey, listApiKeys } = ApiKeyService.method;
    const { createWebhookEndpoint, rotateWebhookSecret, deleteWebhookEndpoint } = WebhookEndpointService.method;
    const key = await cachingOf(createApiKey, { name: "rotated", scope: Scope.READ });
    const webhookEndpoint = { url: "https://127.0.0.1:9443/hook", events: ["request.completed"] };
    const endpoint = await cachingOf(createWebhookEndpoint, { webhookEndpoint });
    const id = endpoint.message?.webhookEndpoint?.id ?? "";
    const rotated = await cachingOf(rotateApiKey, { id: key.message?.apiKey?.id ?? "" });
    const secret = await cachingOf(rotateWebhookSecret, { id });
    const link = await cachingOf(SessionService.method.createSetupLink, {});
    const answers = [key, endpoint, rotated, secret, link];
    expect(answers.map(({ caching }) => caching)).toEqual(answers.map(() => "no-store"));
    const others = [await cachingOf(listApiKeys, {}), await cachingOf(deleteWebhookEndpoint, { id })];
    expect(others.map(({ caching }) => caching)).toEqual([undefined, undefined]);
  });

  it("to the key service names the field of a rejected request", async () => {
    const authorization = bearer(service.adminToken);
    const { failure } = await way.call(ApiKeyService.method.createApiKey, { scope: Scope.READ }, { authorization });
    expect(failure).toMatchObject({ code: status.INVALID_ARGUMENT, param: "name", fields: ["name"] });
    const unknown = await way.call(ApiKeyService.method.revokeApiKey, { id: "key_none" }, { authorization });
    expect(unknown.failure).toMatchObject({ code: status.NOT_FOUND, reason: "NOT_FOUND" });
  });

  it("is limited to the models of a key; other models are answered like unknown ones (KEY-8, MODEL-7)", async () => {
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

  it("leaves no running call after the client has ended a watch", async () => {
    await way.call(CatalogService.method.watchModels, {}, { stopAfter: 1 });
    await eventually(async () => {
      const { requests, streams } = await service.debugState();
      return Object.values(requests.by_stage).every((count) => count === 0) && streams === 0;
    }, "no call is left");
  });
});

describe("the table of operations", () => {
  it("marks every RPC whose response has a field for a secret (E-18)", () => {
    const withSecret = methods.filter(({ output }) => output.fields.some(({ name }) => /(^|_)secret$/.test(name)));
    expect(withSecret.length).toBeGreaterThanOrEqual(4);
    for (const method of withSecret) {
      const operation = operationByRpcPath.get(grpcPath(method));
      expect([method.name, operation !== undefined && secretOperations.has(operation)]).toEqual([method.name, true]);
    }
  });
});
