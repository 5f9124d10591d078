import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { UpstreamService } from "../../../gen/unified/admin/v1/upstream_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import type { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { startScriptedUpstream } from "../../support/upstream/scripted-upstream.js";
import { type CallSettings, openWay, type RpcWay, wayNames } from "./ways.js";

const { listUpstreams, checkUpstream, createUpstream, updateUpstream, deleteUpstream, drainDeployment } =
  UpstreamService.method;
const script = { text: "one two", tokens: 2, tokenDelayMs: 0, contextLength: 1_000, embeddingDims: 4 };

let upstream: RawUpstream;
let service: RunningService;
beforeAll(async () => {
  upstream = await startScriptedUpstream(script);
  service = await startService();
});
afterAll(async () => {
  await service.close();
  await upstream.close();
});

describe.each(wayNames)("UpstreamService over %s", (name) => {
  let way: RpcWay;
  const administrator = (): CallSettings => ({ authorization: `Bearer ${service.adminToken}` });
  beforeAll(() => {
    way = openWay(name, service);
  });
  afterAll(() => way.close());

  it("creates, changes, drains, lists and deletes an upstream", async () => {
    const first = { name: "gpu", url: upstream.url, kind: "vllm", idle: durationFromMs(20_500), slots: 5 };
    const created = await way.call(
      createUpstream,
      { upstream: first, key: "key-of-this-test-0123", headers: { "X-Team": "a" } },
      administrator(),
    );
    expect(created.failure).toBeNull();
    expect(created.messages[0]?.upstream).toMatchObject({
      keyCount: 1,
      keyHint: "0123",
      headerNames: ["x-team"],
      source: "stored",
      slots: 5,
    });
    expect(durationMs(created.messages[0]?.upstream?.idle ?? durationFromMs(0))).toBe(20_500);

    const changed = await way.call(updateUpstream, { name: "gpu", models: { values: ["chat"] } }, administrator());
    expect(changed.messages[0]?.upstream).toMatchObject({ models: ["chat"], slots: 5, discover: { seconds: 0n } });

    const drained = await way.call(drainDeployment, { id: "gpu/chat" }, administrator());
    expect(drained.messages[0]?.deployment).toMatchObject({ model: "chat", upstreamModel: "chat", state: "draining" });
    await way.call(drainDeployment, { id: "gpu/chat", drain: false }, administrator());

    const listed = await way.call(listUpstreams, {}, administrator());
    expect(listed.messages[0]?.upstreams).toMatchObject([
      { name: "gpu", deployments: [{ id: "gpu/chat", state: "ready", outstandingTokens: 0n }] },
    ]);
    expect((await way.call(deleteUpstream, { name: "gpu" }, administrator())).failure).toBeNull();
    expect((await way.call(listUpstreams, {}, administrator())).messages[0]?.upstreams).toEqual([]);
  });

  it("checks a server", async () => {
    const checked = await way.call(checkUpstream, { url: upstream.url }, administrator());
    expect(checked.messages[0]).toMatchObject({ usable: true, kind: "vllm", problem: "" });
    expect(checked.messages[0]?.models[0]).toMatchObject({ id: "chat", contextLength: 1_000 });
  });

  it.each([
    ["a missing upstream", createUpstream, {}, status.INVALID_ARGUMENT, "upstream"],
    ["a metadata address", checkUpstream, { url: "http://169.254.169.254/v1" }, status.INVALID_ARGUMENT, "url"],
    ["an unknown upstream", updateUpstream, { name: "nobody", weight: 2 }, status.NOT_FOUND, "name"],
    ["an unknown deployment", drainDeployment, { id: "nobody/none" }, status.NOT_FOUND, "id"],
  ] as const)("rejects %s with the name of the field", async (_, method, message, code, param) => {
    const { failure } = await way.call(method as typeof createUpstream, message as object, administrator());
    expect(failure).toMatchObject({ code, param });
  });
});
