import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes } from "../../support/upstream/raw-upstream.js";
import { startScriptedUpstream } from "../../support/upstream/scripted-upstream.js";
import { start } from "../../support/upstream/test-upstream.js";
import { UpstreamCalls } from "../../support/upstream/upstream-calls.js";

const providerKey = "provider-key-0123456789-last";
const masterKey = randomBytes(32).toString("base64");

/** Another service, which is the upstream. */
let folder: ServiceFolder;
let provider: ServiceProcess;
beforeAll(async () => {
  folder = await ServiceFolder.create();
  const models = [
    { id: "remote", engine: "scripted", scripted: { text: "From afar." } },
    { id: "slow", engine: "scripted", scripted: { tokens: 20, token_delay_ms: 25 } },
  ];
  const env = { UIS_BOOTSTRAP_API_KEY: providerKey };
  provider = await folder.start({ models, state: { durability: "none" } }, { env });
}, 60_000);
afterAll(() => folder.remove());

const providerUrl = () => `${provider.http}/v1`;

/** Starts a service for the running test. */
async function startFor(config: object = {}, env = {}): Promise<{ service: RunningService; calls: UpstreamCalls }> {
  const service = await startService({ config: { models: [], ...config }, env: { UIS_MASTER_KEY: masterKey, ...env } });
  onTestFinished(() => service.close());
  return { service, calls: new UpstreamCalls(service) };
}

/** A service whose state is in a file, with a function that starts it again. */
async function startOnFile() {
  const dataDir = await mkdtemp(join(tmpdir(), "uis-upstreams-"));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  let service: RunningService | null = null;
  const begin = async (config: object = {}) => {
    await service?.close();
    const onFile = { data_dir: dataDir, state: { durability: "every-write" }, models: [] };
    service = await startService({ config: { ...onFile, ...config }, env: { UIS_MASTER_KEY: masterKey } });
    return { service, calls: new UpstreamCalls(service) };
  };
  onTestFinished(async () => await service?.close());
  return { dataDir, begin };
}

describe("an upstream that is created while the service runs", () => {
  it("serves its models immediately, with its key", async () => {
    const { calls } = await startFor();
    const { status, json } = await calls.create({ name: "far", url: providerUrl() }, { key: providerKey });
    expect(status).toBe(200);
    expect(json["upstream"]).toMatchObject({
      name: "far",
      kind: "generic",
      source: "stored",
      discover: "30s",
      connect: "5s",
      firstByte: "60s",
      weight: 1,
      slots: 256,
      keyCount: 1,
      keyHint: "last",
      createdAt: expect.stringMatching(/^20/),
      deployments: [
        { id: "far/remote", model: "remote", upstreamModel: "remote", state: "ready", weight: 1, slots: 256 },
        { id: "far/slow", model: "slow", state: "ready" },
      ],
    });
    expect(await calls.modelIds()).toEqual(["remote", "slow"]);
    const answer = await calls.user.chat("remote");
    expect(answer.text).toContain("From afar.");
    expect(answer.headers.get("x-uis-deployment")).toBe("far/remote");
    expect(await calls.list()).toEqual([json["upstream"]]);
  });

  it("answers for a model that names its model as a fallback, as long as it exists (REL-21)", async () => {
    const fail = { after_tokens: 0, code: "server_is_overloaded" };
    const own = { id: "own", engine: "scripted", scripted: { fail }, fallbacks: ["remote"] };
    const { calls } = await startFor({ models: [own] });
    expect((await calls.user.chat("own")).status).toBe(503);
    await calls.create({ name: "far", url: providerUrl() }, { key: providerKey });
    const answer = await calls.user.chat("own");
    expect(answer.text).toContain("From afar.");
    expect(answer.headers.get("x-uis-model")).toBe("remote");
    await calls.call("DeleteUpstream", { name: "far" });
    expect((await calls.user.chat("own")).status).toBe(503);
  });

  it("never shows its key or header values: in no answer, log, audit record or file (SEC-33, USE-16)", async () => {
    const { begin, dataDir } = await startOnFile();
    const { service, calls } = await begin();
    const secrets = { key: providerKey, headers: { "X-Team": "header-value-9876" } };
    const answers = [
      await calls.create({ name: "far", url: providerUrl() }, secrets),
      await calls.create({ name: "far", url: providerUrl() }, secrets),
      await calls.call("UpdateUpstream", { name: "far", ...secrets, headers: { values: secrets.headers } }),
      await calls.call("UpdateUpstream", { name: "far", key: `${providerKey} ` }),
      await calls.call("CheckUpstream", { name: "far" }),
      await calls.call("ListUpstreams"),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 409, 200, 400, 200, 200]);
    expect(answers[5]?.text).toContain('"headerNames":["x-team"]');
    const { records } = await service.service.parts.state.audit.list({ limit: 100, after: null });
    const own = records.filter(({ action }) => action.startsWith("upstream."));
    expect(own.map(({ action, target }) => [action, target])).toEqual([
      ["upstream.check", "far"],
      ["upstream.update", "far"],
      ["upstream.create", "far"],
    ]);
    expect(own[2]?.details).toMatchObject({ url_origin: provider.http, key: "set", headers: "X-Team" });
    const shown = [answers.map(({ text }) => text), service.logs, records].map((part) => JSON.stringify(part)).join();
    const files = await Promise.all((await readdir(dataDir)).map((name) => readIfFile(join(dataDir, name))));
    for (const secret of [providerKey, "header-value-9876"]) {
      expect(shown).not.toContain(secret);
      for (const bytes of files) expect(bytes.includes(secret)).toBe(false);
    }
  });

  it("stays after a restart and after the configuration is loaded again (REL-23)", async () => {
    const { begin } = await startOnFile();
    const first = await begin();
    await first.calls.create({ name: "far", url: providerUrl(), weight: 3 }, { key: providerKey });
    await first.calls.drain("far/slow");
    const { service, calls } = await begin();
    const states = async () => (await calls.deployments()).map(({ id, state }) => [id, state]);
    const kept = [
      ["far/remote", "ready"],
      ["far/slow", "draining"],
    ];
    expect(await states()).toEqual(kept);
    expect((await calls.user.chat("remote")).status).toBe(200);
    await service.service.reload.apply(service.service.config, []);
    await service.service.parts.upstreams.offer();
    expect(await states()).toEqual(kept);
    expect((await calls.user.chat("remote")).status).toBe(200);
  });

  it("is ignored with one warning while the configuration has one of the same name, which is read-only", async () => {
    const { begin } = await startOnFile();
    const first = await begin();
    await first.calls.create({ name: "gpu", url: "http://127.0.0.1:1/v1" });
    const own = { gpu: { url: providerUrl(), key: providerKey } };
    const { service, calls } = await begin({ upstreams: own });
    expect(await calls.list()).toMatchObject([
      { name: "gpu", source: "config", hidesStored: true, url: providerUrl(), keyHint: "last" },
    ]);
    expect(await calls.modelIds()).toEqual(["remote", "slow"]);
    const { config, reload, parts } = service.service;
    await reload.apply(config, [...parts.upstreams.definitions]);
    const warnings = service.logs.filter(({ msg }) => String(msg).includes("the stored upstream is ignored"));
    expect(warnings).toEqual([expect.objectContaining({ upstream: "gpu" })]);
    for (const [method, message] of [
      ["CreateUpstream", { upstream: { name: "gpu", url: providerUrl() } }],
      ["UpdateUpstream", { name: "gpu", weight: 2 }],
    ] as const) {
      const { status, text } = await calls.call(method, message);
      expect([status, text]).toEqual([409, expect.stringContaining("is part of the configuration")]);
    }
    expect((await calls.call("DeleteUpstream", { name: "gpu" })).status).toBe(200);
    expect((await calls.call("DeleteUpstream", { name: "gpu" })).status).toBe(409);
    expect(await calls.list()).toMatchObject([{ name: "gpu", source: "config" }]);
    expect((await calls.user.chat("remote")).status).toBe(200);
  });

  it("is not used, and its problem names the cause, if its key cannot be decrypted", async () => {
    const { service, calls } = await startFor();
    const { upstreams, catalog } = service.service.parts;
    await calls.create({ name: "far", url: providerUrl() }, { key: providerKey });
    const [stored] = await service.service.parts.state.upstreams.list();
    if (stored === undefined) throw new Error("the upstream is not stored");
    const copied = { ...stored, name: "copy", sealedKey: stored.sealedKey };
    await service.service.parts.state.upstreams.insert(copied);
    await upstreams.refresh();
    const [copy] = await calls.list();
    expect(copy).toMatchObject({ name: "copy", problem: expect.stringContaining("cannot be decrypted") });
    expect(catalog.deployments().filter(({ upstream }) => upstream === "copy")).toEqual([]);
    expect((await calls.call("CheckUpstream", { name: "copy" })).status).toBe(409);
  });
});

describe("a changed or deleted upstream", () => {
  it("lets running requests end (REL-23)", async () => {
    const { service, calls } = await startFor();
    await calls.create({ name: "far", url: providerUrl() }, { key: providerKey });
    for (const change of [
      () => calls.call("UpdateUpstream", { name: "far", models: { values: ["slow"] } }),
      () => calls.call("DeleteUpstream", { name: "far" }),
    ]) {
      const reader = await calls.user.stream("slow");
      await reader.read();
      expect((await change()).status).toBe(200);
      expect(await restOf(reader)).toContain("[DONE]");
    }
    expect(await calls.modelIds()).toEqual([]);
    expect(await calls.list()).toEqual([]);
    await eventually(() => service.service.parts.catalog.deployments().length === 0, "no deployment is left");
    expect((await calls.user.chat("slow")).code).toBe("model_not_found");
    expect((await calls.call("DeleteUpstream", { name: "far" })).status).toBe(404);
  });

  it("loses no request, neither running nor waiting, while it is changed under load (REL-23)", async () => {
    const { calls } = await startFor();
    const script = { text: "one two", tokens: 10, tokenDelayMs: 5, contextLength: 1_000, embeddingDims: 4 };
    const upstream = await startScriptedUpstream(script);
    onTestFinished(() => upstream.close());
    await calls.create({ name: "gpu", url: upstream.url, kind: "vllm", models: ["chat"], slots: 3 });
    const statuses: number[] = [];
    let isChanging = true;
    const client = async () => {
      while (isChanging) statuses.push((await calls.user.chat("chat")).status);
    };
    const clients = Array.from({ length: 12 }, client);
    for (let weight = 1; weight <= 5; weight += 1) {
      const before = statuses.length;
      expect((await calls.call("UpdateUpstream", { name: "gpu", weight, slots: 2 + weight })).status).toBe(200);
      await eventually(() => statuses.length > before + 12, "requests after the change");
    }
    isChanging = false;
    await Promise.all(clients);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });

  it("answers immediately if it is created again while a request of the former one runs", async () => {
    const { calls } = await startFor();
    const create = () => calls.create({ name: "far", url: providerUrl(), models: ["slow"] }, { key: providerKey });
    await create();
    const reader = await calls.user.stream("slow");
    await reader.read();
    await calls.call("DeleteUpstream", { name: "far" });
    await create();
    const second = await calls.user.stream("slow");
    expect(await restOf(second)).toContain("[DONE]");
    expect(await restOf(reader)).toContain("[DONE]");
  });

  it("offers only the models of its list, and all models again without a list", async () => {
    const { calls } = await startFor();
    await calls.create({ name: "far", url: providerUrl(), models: ["remote"] }, { key: providerKey });
    expect(await calls.modelIds()).toEqual(["remote"]);
    await calls.call("UpdateUpstream", { name: "far", models: {}, weight: 7, priority: 2, slots: 9 });
    expect(await calls.modelIds()).toEqual(["remote", "slow"]);
    const place = { weight: 7, priority: 2, slots: 9 };
    expect(await calls.deployments()).toMatchObject([place, place]);
  });

  it("never sends its key to another server unless the key is given again (SEC-33)", async () => {
    const { calls } = await startFor();
    const other = await start((socket) => {
      socket.end(answerBytes("200 OK", "application/json", '{"data":[{"id":"elsewhere"}]}'));
    });
    await calls.create({ name: "far", url: providerUrl() }, { key: providerKey });
    const { status, text } = await calls.call("UpdateUpstream", { name: "far", url: other.url });
    expect([status, text]).toEqual([400, expect.stringContaining("'key' must be set again")]);
    await calls.call("UpdateUpstream", { name: "far", url: other.url, key: "" });
    await eventually(async () => (await calls.modelIds()).join() === "elsewhere", "the models of the other server");
    expect(other.requests.some(({ headers }) => "authorization" in headers)).toBe(false);
  });

  it("has a problem that says why its models cannot be listed", async () => {
    const { calls } = await startFor();
    await calls.create({ name: "far", url: providerUrl() });
    const [upstream] = await calls.list();
    expect(upstream?.problem).toContain("requires an API key");
    await calls.call("UpdateUpstream", { name: "far", key: providerKey });
    expect(await calls.list()).toMatchObject([{ deployments: [{ id: "far/remote" }, { id: "far/slow" }] }]);
    expect((await calls.list())[0]?.problem).toBeUndefined();
  });
});

describe("checking an upstream", () => {
  it("returns facts about the server and the lines that add it", async () => {
    const { calls } = await startFor();
    const { json } = await calls.call("CheckUpstream", { url: providerUrl(), key: providerKey });
    expect(json).toMatchObject({
      usable: true,
      url: providerUrl(),
      kind: "generic",
      models: [{ id: "remote", capabilities: ["chat", "completions"] }, { id: "slow" }],
    });
    expect(json["config"]).toContain(`url: ${providerUrl()}`);
    expect(JSON.stringify(json)).not.toContain(providerKey);
  });

  it.each([
    ["http://169.254.169.254/v1"],
    ["http://[fe80::1]/v1"],
    ["http://metadata.google.internal/v1"],
    ["http://[::ffff:169.254.169.254]/v1"],
  ])("refuses %s, as creating it does (SEC-17)", async (url) => {
    const { calls } = await startFor();
    for (const answer of [
      await calls.call("CheckUpstream", { url }),
      await calls.create({ name: "meta", url }),
      await calls
        .create({ name: "ok", url: "http://127.0.0.1:1/v1", discover: "0s" })
        .then(() => calls.call("UpdateUpstream", { name: "ok", url })),
    ]) {
      expect([answer.status, answer.text]).toEqual([400, expect.stringContaining("link-local or metadata address")]);
    }
  });

  it("follows no redirect, and shows nothing of an answer's body", async () => {
    const { calls } = await startFor();
    const target = await start((socket) => void socket.end(answerBytes("200 OK", "application/json", '{"data":[]}')));
    const moved = await start((socket) => {
      socket.end(answerBytes("302 Found", "text/plain", "inner words", [`location: ${target.url}/models`]));
    });
    const { status, json, text } = await calls.call("CheckUpstream", { url: moved.url });
    expect({ status, usable: json["usable"] ?? false }).toEqual({ status: 200, usable: false });
    expect(json["problem"]).toContain("the upstream answered 302");
    expect(json["fix"]).toContain("base URL");
    expect(text).not.toContain("inner words");
    expect(target.requests).toEqual([]);
  });

  it("by its name uses its own key, which cannot be sent to another URL (SEC-33)", async () => {
    const { calls } = await startFor();
    await calls.create({ name: "far", url: providerUrl(), discover: "0s" }, { key: providerKey });
    expect((await calls.call("CheckUpstream", { name: "far" })).json).toMatchObject({ usable: true });
    const both = await calls.call("CheckUpstream", { name: "far", url: "http://127.0.0.1:1/v1" });
    expect([both.status, both.text]).toEqual([400, expect.stringContaining("excludes")]);
    expect((await calls.call("CheckUpstream", { name: "none" })).status).toBe(404);
  });
});

async function readIfFile(path: string): Promise<Buffer> {
  return await readFile(path).catch(() => Buffer.alloc(0));
}

async function restOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value);
  return text;
}
