import type { Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { ModelDiscovery } from "../../../src/app/compose/model-discovery.js";
import { configSchema } from "../../../src/app/config/schema.js";
import { Catalog } from "../../../src/domain/catalog/catalog.js";
import type { ModelDefinition } from "../../../src/domain/catalog/catalog-model.js";
import type { UpstreamDefinition } from "../../../src/domain/engine/upstream.js";
import type { UpstreamSource } from "../../../src/domain/upstreams/upstreams-in-use.js";
import { openAiEngine } from "../../../src/engines/openai/openai-engine.js";
import { createRandomIds } from "../../../src/lib/crypto.js";
import { openMemoryState } from "../../../src/state/embedded/memory-state.js";
import { deploymentOn, noDrains } from "../../support/deployments.js";
import { eventually } from "../../support/eventually.js";
import { FakeClock } from "../../support/fake-clock.js";
import { HandEngine } from "../../support/hand-engine.js";
import { silentLog } from "../../support/silent-log.js";
import { type UpstreamChanges, upstreamSettings } from "../../support/upstream/engine-calls.js";
import { answerBytes, type RawUpstream } from "../../support/upstream/raw-upstream.js";
import { start } from "../../support/upstream/test-upstream.js";

/** Longer than 30 s plus the tenth by which delays vary at random. */
const intervalMs = 33_001;

/** A server that lists models until `answer` is replaced. */
async function listing(...ids: string[]): Promise<RawUpstream & { list(...ids: string[]): void }> {
  const answerWith = (now: readonly string[]) => (socket: Socket) => {
    const data = now.map((id) => ({ id, max_model_len: 1_000 + id.length }));
    socket.write(answerBytes("200 OK", "application/json", JSON.stringify({ data })));
  };
  const server = await start(answerWith(ids));
  return Object.assign(server, { list: (...next: string[]) => (server.answer = answerWith(next)) });
}

/** Longer than the first delay after a failed list plus the tenth by which delays vary at random. */
const retryMs = 1_101;

const failing = (socket: Socket): void => {
  socket.write(answerBytes("503 Service Unavailable", "text/plain", "no"));
};

/** Deadlines of requests, which the clock of a test never reaches. */
const deadlineMs = 3_600_000;
const deadlines = { connectMs: deadlineMs, firstByteMs: deadlineMs, idleMs: deadlineMs, totalMs: deadlineMs };

const upstream = (name: string, { url }: RawUpstream, changes: UpstreamChanges = {}): UpstreamDefinition =>
  upstreamSettings(url, { name, kind: "vllm", discoverMs: 30_000, ...deadlines, ...changes });

const sourceOf = (definition: UpstreamDefinition): UpstreamSource => {
  return { definition, models: [], weight: 1, priority: 0, slots: 256 };
};

/** Records the delays until the next lists of models. */
class ListClock extends FakeClock {
  readonly delays: number[] = [];

  override after(ms: number, run: () => void): () => void {
    if (ms < deadlineMs) this.delays.push(ms);
    return super.after(ms, run);
  }
}

function setUp() {
  const clock = new ListClock();
  const logs: string[] = [];
  const log = {
    ...silentLog,
    info: (_: object, text: string) => void logs.push(text),
    warn: (_: object, text: string) => void logs.push(text),
  };
  const store = openMemoryState().catalog;
  const catalog = new Catalog({
    clock,
    // A separate clock, so that only the timers of lists are recorded.
    backgroundClock: new FakeClock(),
    log: silentLog,
    store,
    limits: { queueWaitMs: 1_000 },
    random: () => 0.5,
    drained: noDrains,
  });
  const engine = openAiEngine.create({ clock, backgroundClock: clock, ids: createRandomIds(), log: silentLog });
  const discovery = new ModelDiscovery({ catalog, engine, clock, random: Math.random, log });
  onTestFinished(async () => {
    await discovery.close();
    await catalog.close();
  });
  const models = () =>
    Object.fromEntries(
      catalog.all().map(({ id, deployments }) => [id, deployments.map((deployment) => deployment.id)]),
    );
  const configure = (upstreams: readonly UpstreamDefinition[], config: object = {}) =>
    discovery.configure(configSchema.parse(config).models ?? [], upstreams.map(sourceOf));
  /** Advances time until each server has answered one more list. `servers` must be all that are listed. */
  const nextLists = async (...servers: RawUpstream[]) => {
    const timers = clock.delays.length + servers.length;
    clock.advance(intervalMs);
    await eventually(() => clock.delays.length === timers, "the timers after the next lists");
  };
  const ids = () => Object.keys(models());
  return { clock, catalog, discovery, models, ids, configure, nextLists, logs };
}

describe("ModelDiscovery", () => {
  it("offers the models of all upstreams; the same id on several ones is one model with several deployments", async () => {
    const [a, b, c] = [await listing("shared", "only-a"), await listing("shared"), await listing("only-c")];
    const { catalog, configure, models } = setUp();
    await configure([upstream("a", a), upstream("b", b, { kind: "sglang" }), upstream("c", c, { kind: "ollama" })]);
    expect(models()).toEqual({ "only-a": ["a/only-a"], "only-c": ["c/only-c"], shared: ["a/shared", "b/shared"] });
    expect(catalog.all().map(({ affinity }) => affinity)).toEqual(["none", "none", "prefix"]);
    expect(catalog.all()[0]?.caps).toMatchObject({ chat: true, contextLength: 1_006 });
    // The facts of the list are reused: no model requests the list again.
    expect([a, b, c].map(({ requests }) => requests.length)).toEqual([1, 1, 1]);
  });

  it("offers no model whose id is configured, and avoids the ids of configured deployments", async () => {
    const server = await listing("mine", "other");
    const { configure, models } = setUp();
    const deployments = [{ engine: "openai", upstream: "a", model: "x", id: "a/other" }];
    await configure([upstream("a", server)], {
      upstreams: { a: { url: server.url } },
      models: [{ id: "mine", deployments }],
    });
    expect(models()).toEqual({ other: ["a/other#2"] });
  });

  it("does not replace a model that is stored on this machine, and offers the upstream's model once the stored one is removed", async () => {
    const server = await listing("stored", "other");
    const { catalog, configure, models, nextLists } = setUp();
    const stored: ModelDefinition = {
      id: "stored",
      ownedBy: "test",
      capabilities: null,
      prices: [],
      affinity: "none",
      defaults: null,
      fallbacks: [],
      deployments: [deploymentOn(new HandEngine())],
    };
    await configure([upstream("a", server)]);
    await catalog.put(stored);
    await nextLists(server);
    expect(models()).toEqual({ other: ["a/other"], stored: ["stored/0"] });
    server.list("other");
    await nextLists(server);
    await nextLists(server);
    await nextLists(server);
    expect(models()).toEqual({ other: ["a/other"], stored: ["stored/0"] });
    server.list("other", "stored");
    await catalog.remove("stored");
    await nextLists(server);
    await eventually(() => models()["stored"]?.[0] === "a/stored");
  });

  it("adds new models, and removes those that are missing in two consecutive lists", async () => {
    const server = await listing("a", "b");
    const { configure, ids, nextLists } = setUp();
    await configure([upstream("up", server)]);
    server.list("b", "c");
    await nextLists(server);
    await eventually(() => ids().includes("c"));
    expect(ids()).toEqual(["a", "b", "c"]);
    server.list("a", "b", "c");
    await nextLists(server);
    server.list("c");
    await nextLists(server);
    await nextLists(server);
    await eventually(() => ids().join() === "c");
  });

  it("keeps all models while an upstream does not answer, and logs when that begins and ends", async () => {
    const server = await listing("a");
    const { configure, ids, nextLists, logs } = setUp();
    await configure([upstream("up", server)]);
    logs.length = 0;
    server.answer = failing;
    for (let i = 0; i < 5; i += 1) await nextLists(server);
    expect(ids()).toEqual(["a"]);
    await eventually(() => logs.length > 0);
    expect(logs).toEqual(["the upstream does not list its models; those of its last list stay"]);
    server.list("a", "b");
    await nextLists(server);
    await eventually(() => ids().length === 2);
    expect(logs.slice(1)).toEqual(["the upstream lists its models again", "the models of the upstreams changed"]);
  });

  it("lists a failing upstream again after 1 s, 2 s and so on up to 60 s, varied at random by a tenth", async () => {
    const server = await listing();
    server.answer = failing;
    const { clock, configure } = setUp();
    await configure([upstream("up", server, { discoverMs: 1_000 })]);
    const expected = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000];
    // The first delay is that of the wait for the first list.
    for (const i of expected.keys()) {
      await eventually(() => clock.delays.length === i + 2, "the timer of the next list");
      clock.advance(clock.delays[i + 1] ?? 0);
    }
    const ratios = clock.delays.slice(1).map((delayMs, i) => delayMs / (expected[i] ?? 0));
    expect(ratios.filter((ratio) => ratio < 0.9 || ratio > 1.1)).toEqual([]);
    expect(new Set(ratios).size).toBeGreaterThan(1);
    await eventually(() => server.requests.length === expected.length + 1);
  });

  it("changes no model of other upstreams when one list changes", async () => {
    const [a, b] = [await listing("a1", "shared"), await listing("b1")];
    const { catalog, configure, ids, models, nextLists } = setUp();
    await configure([upstream("a", a), upstream("b", b)]);
    const before = new Map(catalog.all().map((model) => [model.id, model]));
    b.list("b1", "b2", "shared");
    await nextLists(a, b);
    await eventually(() => models()["shared"]?.length === 2);
    expect(ids()).toEqual(["a1", "b1", "b2", "shared"]);
    const same = catalog.all().filter((model) => before.get(model.id) === model);
    expect(same.map(({ id }) => id)).toEqual(["a1", "b1"]);
  });

  it("waits for the first lists, but not longer than 2 s", async () => {
    const [quick, silent] = [await listing("a"), await start(() => {})];
    const { clock, configure, ids } = setUp();
    let isDone = false;
    const done = configure([upstream("quick", quick), upstream("silent", silent)]).then(() => (isDone = true));
    await eventually(() => ids().length === 1 && silent.requests.length === 1);
    clock.advance(1_999);
    await new Promise(setImmediate);
    expect(isDone).toBe(false);
    clock.advance(1);
    await done;
  });

  it("tries the other keys of an upstream for its list", async () => {
    const server = await listing("a");
    const list = server.answer;
    server.answer = (socket, request) => {
      if (request.headers["authorization"] === "Bearer good") list(socket, request);
      else socket.write(answerBytes("401 Unauthorized", "text/plain", "no"));
    };
    const { configure, ids } = setUp();
    await configure([upstream("up", server, { keys: ["old", "older", "good"] })]);
    expect(ids()).toEqual(["a"]);
  });

  it("offers no model whose id cannot be used here, and logs that once", async () => {
    const server = await listing("good/id:7b", "with space", "x".repeat(129));
    const { configure, ids, logs, nextLists } = setUp();
    await configure([upstream("up", server)]);
    await nextLists(server);
    expect(ids()).toEqual(["good/id:7b"]);
    expect(logs.filter((text) => text.includes("cannot be used here"))).toHaveLength(1);
  });

  it("requests no list from a kind of upstream that has none, and logs what to do", async () => {
    const server = await listing("a");
    const { configure, ids, logs } = setUp();
    await configure([upstream("up", server, { kind: "azure" })]);
    expect([ids(), server.requests]).toEqual([[], []]);
    expect(logs).toEqual(["this kind of upstream does not list its deployments: name them in models"]);
  });
});

describe("ModelDiscovery, reconfigured", () => {
  it("removes the models of removed upstreams, and keeps the timers of unchanged ones", async () => {
    const [a, b] = [await listing("a1", "shared"), await listing("b1", "shared")];
    const { clock, configure, models } = setUp();
    await configure([upstream("a", a), upstream("b", b)]);
    clock.advance(20_000);
    await configure([upstream("b", b), upstream("off", a, { discoverMs: null })]);
    await expect.poll(models).toEqual({ b1: ["b/b1"], shared: ["b/shared"] });
    expect([a.requests.length, b.requests.length]).toEqual([1, 1]);
    clock.advance(intervalMs - 20_000);
    await eventually(() => b.requests.length === 2);
    expect(a.requests).toHaveLength(1);
  });

  it("lists a changed upstream immediately and at its new interval; its models stay until its first list", async () => {
    const [before, after] = [await listing("old", "both"), await listing("both")];
    after.answer = failing;
    const { clock, configure, ids, discovery } = setUp();
    await configure([upstream("up", before)]);
    await configure([upstream("up", after, { discoverMs: 5_000 })]);
    expect(ids()).toEqual(["both", "old"]);
    expect(discovery.models.map(({ deployments }) => deployments[0]?.options)).toMatchObject([
      { upstream: { url: after.url } },
      { upstream: { url: after.url } },
    ]);
    after.list("both");
    clock.advance(retryMs);
    await eventually(() => ids().join() === "both");
    clock.advance(5_501);
    await eventually(() => after.requests.length === 3);
    expect(before.requests).toHaveLength(1);
  });
});
