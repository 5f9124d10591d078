import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { startService } from "../../support/start-service.js";
import type { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { startScriptedUpstream } from "../../support/upstream/scripted-upstream.js";
import { UpstreamCalls } from "../../support/upstream/upstream-calls.js";

const script = { text: "one two", tokens: 30, contextLength: 1_000, embeddingDims: 4 };

async function startUpstream(tokenDelayMs: number): Promise<RawUpstream> {
  const upstream = await startScriptedUpstream({ ...script, tokenDelayMs });
  onTestFinished(() => upstream.close());
  return upstream;
}

/** A service with the model `m` at the upstreams `a` and `b`, which answer in 600 ms, and its fallback `spare`. */
async function startWithTwo(fallbacks: readonly string[] = []) {
  const [a, b] = [await startUpstream(20), await startUpstream(20)];
  const deployments = ["a", "b"].map((upstream) => ({ engine: "openai", upstream, model: "chat" }));
  const service = await startService({
    config: {
      upstreams: { a: { url: a.url, kind: "vllm" }, b: { url: b.url, kind: "vllm" } },
      models: [
        { id: "m", affinity: "none", deployments, fallbacks },
        { id: "spare", engine: "scripted", scripted: { text: "Spare." } },
      ],
    },
  });
  onTestFinished(() => service.close());
  const calls = new UpstreamCalls(service);
  const deploymentOf = async () => (await calls.user.chat("m")).headers.get("x-uis-deployment");
  return { service, calls, deploymentOf };
}

describe("a drained deployment", () => {
  it("gets no new request while its running ones finish, and is used again after its drain ends (REL-22)", async () => {
    const { calls, deploymentOf } = await startWithTwo();
    const running = Array.from({ length: 8 }, () => calls.user.chat("m"));
    const outstanding = async () =>
      (await calls.deployments()).map(({ outstandingRequests = 0 }) => outstandingRequests);
    await eventually(async () => (await outstanding()).join() === "4,4", "4 requests at each upstream");
    const { json } = await calls.drain("a/chat");
    expect(json["deployment"]).toMatchObject({
      id: "a/chat",
      model: "m",
      state: "draining",
      outstandingRequests: 4,
      reason: expect.stringContaining("no new requests"),
    });
    const later = await Promise.all(Array.from({ length: 6 }, () => deploymentOf()));
    expect(new Set(later)).toEqual(new Set(["b/chat"]));
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(await outstanding()).toEqual([0, 0]);
    expect((await calls.drain("a/chat", false)).json["deployment"]).toMatchObject({ state: "ready" });
    const both = await Promise.all(Array.from({ length: 6 }, () => deploymentOf()));
    expect(new Set(both)).toEqual(new Set(["a/chat", "b/chat"]));
  });

  it("stays drained when its model is loaded again", async () => {
    const { service, calls, deploymentOf } = await startWithTwo();
    await calls.drain("a/chat");
    const { config, parts, reload } = service.service;
    const models = (config.models ?? []).map((model) => ({ ...model, owned_by: "another" }));
    await reload.apply({ ...config, models }, [...parts.upstreams.definitions]);
    await eventually(
      () => parts.catalog.all().every(({ ownedBy }) => ownedBy === "another"),
      "the models are replaced",
    );
    expect(await deploymentOf()).toBe("b/chat");
    expect((await calls.deployments()).map(({ state }) => state)).toEqual(["draining", "ready"]);
  });

  it("gets no request if all deployments of the model drain: an error names the reason immediately, or a fallback answers", async () => {
    const { calls } = await startWithTwo();
    await calls.drain("a/chat");
    await calls.drain("b/chat");
    const { status, code, text, headers } = await calls.user.chat("m");
    expect({ status, code }).toEqual({ status: 503, code: "server_is_overloaded" });
    expect(text).toContain("Every deployment of the model is drained");
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    const other = await startWithTwo(["spare"]);
    await other.calls.drain("a/chat");
    await other.calls.drain("b/chat");
    const answer = await other.calls.user.chat("m");
    expect(answer.headers.get("x-uis-model")).toBe("spare");
  });

  it("is shown in /debug/state, and its drain in the audit log", async () => {
    const { service, calls } = await startWithTwo();
    await calls.drain("b/chat");
    await calls.drain("b/chat");
    const { deployments } = await service.debugState();
    expect(deployments.filter(({ state }) => state === "draining").map(({ id }) => id)).toEqual(["b/chat"]);
    await calls.drain("b/chat", false);
    const { records } = await service.service.parts.state.audit.list({ limit: 100, after: null });
    const actions = records.map(({ action, target }) => `${action} ${target}`);
    expect(actions.slice(0, 2)).toEqual(["deployment.undrain b/chat", "deployment.drain b/chat"]);
  });

  it("must exist, in this process or among the drains", async () => {
    const { service, calls } = await startWithTwo();
    expect((await calls.drain("c/chat")).code).toBe("not_found");
    expect((await calls.drain("c/chat", false)).code).toBe("not_found");
    await service.service.parts.state.drains.insert({ id: "gone/chat", sinceMs: 1 });
    expect((await calls.drain("gone/chat", false)).json).toEqual({});
    expect((await calls.drain("embedded/spare")).json["deployment"]).toMatchObject({
      model: "spare",
      state: "draining",
    });
  });

  it("of a deleted upstream is not drained when the upstream is created again", async () => {
    const { service, calls } = await startWithTwo();
    const upstream = await startUpstream(0);
    const create = () => calls.create({ name: "new", url: upstream.url, models: ["chat"] });
    await create();
    await calls.drain("new/chat");
    await calls.call("DeleteUpstream", { name: "new" });
    expect(await service.service.parts.state.drains.list()).toEqual([]);
    await create();
    expect((await calls.deployments()).find(({ id }) => id === "new/chat")?.state).toBe("ready");
  });
});
