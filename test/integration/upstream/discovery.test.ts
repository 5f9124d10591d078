import { afterEach, describe, expect, it } from "vitest";
import { ModelKeys } from "../../../src/engines/openai/connection/key-ring.js";
import { Upstream } from "../../../src/engines/openai/connection/upstream.js";
import { checkUpstream, discoverModels, isHealthy } from "../../../src/engines/openai/discovery.js";
import { type AbortFlag, AbortSource } from "../../../src/lib/abort-source.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { eventually } from "../../support/eventually.js";
import {
  chatRequest,
  loadUpstreamModel,
  never,
  runEvents,
  upstreamEngine,
  upstreamSettings,
} from "../../support/upstream/engine-calls.js";
import { answerBytes, type RawAnswer, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { recordedBytes } from "../../support/upstream/recorded-answers.js";

const clock = createSystemClock();
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A server that answers each path with a recording. */
async function start(recorded: Readonly<Record<string, string>>): Promise<RawUpstream> {
  return await serve((socket, { path }) => {
    const name = recorded[path];
    socket.end(name === undefined ? answerBytes("404 Not Found", "text/plain", "no") : recordedBytes(name));
  });
}

async function serve(answer: RawAnswer): Promise<RawUpstream> {
  const server = await RawUpstream.start(answer);
  closing.push(() => server.close());
  return server;
}

function upstreamOf(server: RawUpstream, changes: Parameters<typeof upstreamSettings>[1] = {}): Upstream {
  const upstream = new Upstream(clock, upstreamSettings(server.url, changes));
  closing.push(() => upstream.close());
  return upstream;
}

describe("discovery of an upstream server", () => {
  it("reads id, context length, kind and version of vLLM", async () => {
    const server = await start({ "/v1/models": "vllm-cpu/models", "/version": "vllm-cpu/version" });
    const facts = await checkUpstream(upstreamOf(server, { kind: "vllm" }), clock, never);
    expect(facts).toMatchObject({
      kind: "vllm",
      version: "0.32.0",
      models: [{ id: "smollm2", contextLength: 2_048, embeddingDims: null, operations: ["chat", "completions"] }],
    });
    expect(facts.latencyMs).toBeGreaterThanOrEqual(0);
  });

  it("reads the context of a slot, the length of vectors and, from a header, the kind of llama.cpp", async () => {
    const server = await start({ "/v1/models": "llama-server/models" });
    expect(await checkUpstream(upstreamOf(server, { kind: "llama-server" }), clock, never)).toMatchObject({
      kind: "llama-server",
      version: null,
      models: [
        { id: "models/minilm.gguf", contextLength: 512, embeddingDims: 384, images: false, operations: ["embeddings"] },
      ],
    });
  });

  it("reads the context length of llama.cpp behind Ray Serve", async () => {
    const server = await start({ "/v1/models": "ray-serve/models" });
    const [model] = await discoverModels(upstreamOf(server, { kind: "ray" }), clock, never);
    expect(model).toMatchObject({ contextLength: 1_024 });
  });

  it.each([
    ["llama-server-loading/models", "model_loading"],
    ["vllm-cpu/err-auth-wrong", "unauthorized"],
    ["llama-server/chat-unary", "upstream_error"],
  ])("rejects the recorded answer %s with %s", async (name, code) => {
    const server = await start({ "/v1/models": name });
    await expect(discoverModels(upstreamOf(server), clock, never)).rejects.toMatchObject({ code });
  });

  it.each(["401 Unauthorized", "403 Forbidden", "429 Too Many Requests"])(
    "does not pause a key when the request for the list of models gets %s, because the key may work for other requests",
    async (status) => {
      const server = await serve((socket) => void socket.end(answerBytes(status, "text/plain", "no")));
      const upstream = upstreamOf(server, { keys: ["a", "b"] });
      await expect(discoverModels(upstream, clock, never)).rejects.toThrow("the upstream answered 4");
      expect(server.requests.map(({ headers }) => headers["authorization"]).toSorted()).toEqual([
        "Bearer a",
        "Bearer b",
      ]);
      expect(new ModelKeys(clock, upstream.keys).heldForMs).toBe(0);
    },
  );

  it("does not end the pause of a key when the list of models was read", async () => {
    const server = await start({ "/v1/models": "vllm-cpu/models" });
    const upstream = upstreamOf(server, { keys: ["a"] });
    const keys = new ModelKeys(clock, upstream.keys);
    const key = keys.pick("", []);
    if (key === null) throw new Error("there is no key");
    keys.limited(key, 60_000);
    await discoverModels(upstream, clock, never);
    expect(keys.heldForMs).toBeGreaterThan(50_000);
  });

  it("skips invalid entries in a list of models", async () => {
    const entries = [null, 5, {}, { id: "" }, { id: 7 }, { id: "x".repeat(300) }, { id: "ok", max_model_len: -1 }];
    const server = await serve(
      (socket) => void socket.end(answerBytes("200 OK", "application/json", JSON.stringify({ data: entries }))),
    );
    expect(await discoverModels(upstreamOf(server), clock, never)).toMatchObject([{ id: "ok", contextLength: null }]);
  });

  it("checks health without a generation", async () => {
    const server = await start({ "/health": "llama-server-jinja-key/models", "/v1/models": "vllm-cpu/models" });
    expect(await isHealthy(upstreamOf(server, { kind: "vllm" }), never)).toBe(true);
    expect(await isHealthy(upstreamOf(server, { kind: "openai" }), never)).toBe(true);
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual(["GET /health", "GET /v1/models"]);
    const loading = await start({ "/health": "llama-server-loading/models" });
    expect(await isHealthy(upstreamOf(loading, { kind: "llama-server" }), never)).toBe(false);
    await loading.close();
    closing.pop();
    expect(await isHealthy(upstreamOf(server, { url: "http://127.0.0.1:1/v1" }), never)).toBe(false);
  });
});

describe("load of a model on an upstream server", () => {
  it("uses the facts of the model list, unless the configuration sets them", async () => {
    const server = await start({ "/v1/models": "vllm-cpu/models" });
    const found = await loadUpstreamModel(upstreamSettings(server.url, { kind: "vllm" }));
    expect(found.caps).toMatchObject({ chat: true, contextLength: 2_048 });
    const configured = await loadUpstreamModel(upstreamSettings(server.url, { kind: "vllm" }), {
      contextLength: 1_000,
      capabilities: { operations: ["chat"], abilities: ["tools"] },
    });
    expect(configured.caps).toMatchObject({ chat: true, completion: false, contextLength: 1_000, toolChoice: false });
    await found.unload(0);
    await configured.unload(0);
  });

  it("uses the facts of llama.cpp's only model under any name", async () => {
    const server = await start({ "/v1/models": "llama-server/models" });
    const model = await loadUpstreamModel(upstreamSettings(server.url, { kind: "llama-server" }), {
      model: "all-minilm",
    });
    expect(model.caps).toMatchObject({ embeddings: true, embeddingDims: 384, contextLength: 512 });
    await model.unload(0);
  });

  it("succeeds while the server is unreachable, and reads its capabilities when it is reachable again", async () => {
    let isAway = true;
    const server = await serve((socket, { method }) => {
      if (isAway) socket.resetAndDestroy();
      else if (method === "GET") socket.end(recordedBytes("vllm-cpu/models"));
      else socket.end(recordedBytes("vllm-cpu/chat-stream-usage"));
    });
    const model = await loadUpstreamModel(upstreamSettings(server.url, { kind: "vllm" }));
    expect(model.caps.contextLength).toBeNull();
    expect((await runEvents(model, chatRequest())).error?.code).toBe("upstream_error");
    isAway = false;
    expect((await runEvents(model, chatRequest())).error).toBeNull();
    await eventually(() => model.caps.contextLength === 2_048, "the context length");
    await model.unload(0);
  });

  it("waits two seconds at most for a server that does not answer", async () => {
    const server = await serve(() => {});
    const startedAtMs = performance.now();
    const model = await loadUpstreamModel(upstreamSettings(server.url, { kind: "vllm" }));
    expect(performance.now() - startedAtMs).toBeLessThan(4_000);
    expect(model.caps.contextLength).toBeNull();
    await model.unload(0);
    await eventually(() => server.isIdle, "the cancelled question");
  });

  it("models of one upstream share a health check, and an aborted check counts as failed", async () => {
    let answers = false;
    const server = await serve((socket, { path }) => {
      if (path !== "/health") socket.end(answerBytes("200 OK", "application/json", '{"data":[]}'));
      else if (answers) socket.end(answerBytes("200 OK", "text/plain", ""));
    });
    const settings = upstreamSettings(server.url, { kind: "vllm" });
    const engine = upstreamEngine();
    const load = (model: string) => loadUpstreamModel(settings, { model, slots: 2 }, {}, engine);
    const models = [await load("a"), await load("b")];
    const check = (signal: AbortFlag) => Promise.all(models.map((model) => model.isReachable?.(signal)));
    const healthRequests = () => server.requests.filter(({ path }) => path === "/health").length;
    const round = new AbortSource();
    const hanging = check(round);
    await eventually(() => healthRequests() === 1, "the health check");
    answers = true;
    round.abort(new Error("too long"));
    // The next round begins immediately.
    const next = check(never);
    expect(await hanging).toEqual([false, false]);
    expect(await next).toEqual([true, true]);
    expect(healthRequests()).toBe(2);
    for (const model of models) await model.unload(0);
    expect(await check(never)).toEqual([false, false]);
  });

  it("models with the same upstream settings share connections, which close when the last model is unloaded", async () => {
    const answer = `${sse({ choices: [{ index: 0, delta: { content: "a" }, finish_reason: "stop" }] })}${sse("[DONE]")}`;
    const head = streamHead.replace("connection: close", `content-length: ${answer.length}`);
    const server = await serve((socket) => void socket.write(head + answer));
    const settings = upstreamSettings(server.url, { kind: "azure" });
    const engine = upstreamEngine();
    const load = (model: string) => loadUpstreamModel(settings, { model, slots: 2 }, {}, engine);
    const [first, second] = [await load("a"), await load("b")];
    for (const model of [first, second, first, second]) {
      expect((await runEvents(model, chatRequest())).error).toBeNull();
      // undici uses a connection again only after a turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(server.sockets.size).toBeLessThanOrEqual(2);
    await first.unload(0);
    expect((await runEvents(second, chatRequest())).error).toBeNull();
    await second.unload(0);
    await eventually(() => server.sockets.size === 0, "the closed connections");
  });
});
