import { createHash } from "node:crypto";
import { access, copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { ModelAdminService } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { serviceClient } from "../../../src/app/commands/service-client.js";
import { uis } from "../../support/cli-run.js";
import { writeRandomBertGguf } from "../../support/gguf/random-gguf.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { HubServer } from "../../support/hub-server.js";
import { type RunningService, startService } from "../../support/start-service.js";

let folder: string;
let chatFile: string;
let encoderFile: string;
let chatSum: string;
let hub: HubServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-models-"));
  chatFile = join(folder, "chat.gguf");
  encoderFile = join(folder, "encoder.gguf");
  await writeScriptedGguf(chatFile, { text: "It works.", chatTemplate: "\u001b[31m{{ 'a' }}\r\n\u0007{{ 'b' }}" });
  await writeRandomBertGguf(encoderFile);
  const bytes = await readFile(chatFile);
  chatSum = createHash("sha256").update(bytes).digest("hex");
  hub = await HubServer.start();
  hub.put("owner/repo", "Some-Model.gguf", bytes);
});

afterAll(async () => {
  await hub.close();
  await rm(folder, { recursive: true });
});

const modelFields = ["id", "kind", "bytes", "sha256", "source", "context_length", "license", "added_at", "loaded"];
const headerFields = [
  ...["architecture", "name", "embedding_length", "tokenizer"],
  ...["tensor_count", "parameter_count", "file_type", "chat_template"],
];

type Model = Record<string, unknown>;

/** Name of the request field in the error. */
async function paramOf(call: Promise<unknown>): Promise<string | undefined> {
  const refusal: unknown = await call.then(
    () => "nothing was refused",
    (error: unknown) => error,
  );
  return ConnectError.from(refusal).findDetails(ErrorInfoSchema)[0]?.metadata["param"];
}

/** URL of the model file. The next line has its source on the hub. */
const address = () => `${hub.endpoint}/owner/repo/resolve/main/Some-Model.gguf`;
const hubSource = "hf:owner/repo/Some-Model.gguf@main";

describe("uis models with a running service", () => {
  let service: RunningService;
  let env: Record<string, string>;
  let admin: Client<typeof ModelAdminService>;

  beforeAll(async () => {
    service = await startService({ config: { engine: { threads: 1 } } });
    env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
    const target = { url: service.http, credential: service.adminToken, credentialFrom: "" };
    admin = serviceClient(ModelAdminService, target);
  });

  afterAll(async () => {
    await service.close();
  });

  const models = (...args: string[]) => uis(["models", ...args], { env, cwd: folder });
  const listed = async () => JSON.parse((await models("list", "--json")).stdout) as Model[];
  /** Ids of scripted models, which have no files. */
  const served = ["test-chat", "test-embed"];

  it("lists served models with the fields of GET /v1/models, also without a stored file", async () => {
    const headers = { authorization: `Bearer ${service.key}` };
    const { data } = (await (await fetch(`${service.api}/models`, { headers })).json()) as { data: Model[] };
    expect(data.map(({ id }) => id)).toEqual(served);
    const file = { bytes: null, sha256: null, source: null, license: null, added_at: null };
    const kinds = ["chat", "embedding"];
    expect(await listed()).toEqual(data.map((model, i) => ({ ...model, ...file, kind: kinds[i], loaded: true })));
  });

  it("shows whether each model is loaded, and the size of its file, in 80 columns", async () => {
    await models("import", "chat.gguf", "--id", "a-model-with-a-longer-name");
    await admin.unloadModel({ id: "a-model-with-a-longer-name" });
    const { code, stdout, stderr } = await models("list");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
      ["ID", "KIND", "CONTEXT", "STATE", "FILE"],
      ["a-model-with-a-longer-name", "chat", "2048", "not loaded", "1.9 MB"],
      ["test-chat", "chat", expect.stringMatching(/^\d+$/), "loaded", "no file"],
      ["test-embed", "embedding", expect.stringMatching(/^\d+$/), "loaded", "no file"],
    ]);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    const [unloaded] = await listed();
    expect(unloaded).toMatchObject({ object: "model", created: null, owned_by: null, capabilities: [], loaded: false });
    await models("rm", "a-model-with-a-longer-name");
  });

  it("a model that is unloaded by hand is 503 with the advice not to retry, and one that is removed 404 (ERR-24)", async () => {
    const chat = async () => {
      const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
      const body = JSON.stringify({ model: "by-hand", max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
      const response = await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body });
      const { error } = (await response.json()) as { error?: { code: string } };
      const [shouldRetry, wait] = ["x-should-retry", "retry-after"].map((name) => response.headers.get(name));
      return { status: response.status, code: error?.code ?? null, shouldRetry, wait };
    };
    const refused = { status: 503, code: "model_not_loaded", shouldRetry: "false", wait: null };
    await models("import", "chat.gguf", "--id", "by-hand");
    await admin.unloadModel({ id: "by-hand" });
    expect(await chat()).toEqual(refused);
    await admin.unloadModel({ id: "by-hand" });
    expect(await chat()).toEqual(refused);
    await admin.loadModel({ id: "by-hand" });
    expect(await chat()).toMatchObject({ status: 200 });
    await admin.unloadModel({ id: "by-hand" });
    await models("rm", "by-hand");
    expect(await chat()).toMatchObject({ status: 404, code: "model_not_found" });
  });

  it("inspects a model without a file with the data of the service", async () => {
    const { code, stdout } = await models("inspect", "test-embed", "--json");
    expect({ code, ...(JSON.parse(stdout) as Model) }).toEqual({ code: 0, ...(await listed())[1] });
    const text = await models("inspect", "test-embed");
    expect(text).toMatchObject({ code: 0, stderr: "" });
    expect(text.stdout).toMatch(/^id +test-embed\nobject +model\ncreated +20\d\d-.*Z\n/);
    expect(text.stdout).toMatch(/\ncapabilities +embeddings\ndimensions +8\n/);
    expect(text.stdout.endsWith("\nloaded          yes\n\nno file is stored\n")).toBe(true);
    expect(text.stdout).not.toContain("not stated");
  });

  it("names the invalid request field in errors: the path of an import, the source of a pull", async () => {
    await writeFile(join(folder, "not-gguf.gguf"), "GGUF, they said");
    for (const path of ["/nope", join(folder, "not-gguf.gguf"), ""]) {
      expect({ path, param: await paramOf(admin.importModel({ path })) }).toEqual({ path, param: "path" });
    }
    const pulled = (source: string) => paramOf(admin.pullModel({ source })[Symbol.asyncIterator]().next());
    for (const source of ["ftp:x", "file:/nope"]) {
      expect({ source, param: await pulled(source) }).toEqual({ source, param: "source" });
    }
  });

  it("imports a file, which serves requests until it is removed", async () => {
    const imported = await models("import", "chat.gguf", "--id", "imported", "--json");
    expect(imported).toMatchObject({ code: 0, stderr: "" });
    const model = JSON.parse(imported.stdout) as Model;
    expect(Object.keys(model)).toEqual(modelFields);
    expect(model).toMatchObject({
      id: "imported",
      kind: "chat",
      sha256: chatSum,
      source: `file:${chatFile}`,
      context_length: 2048,
      license: null,
      loaded: true,
    });
    expect(await uis(["run", "imported", "Hi"], { env })).toMatchObject({ code: 0, stdout: "It works.\n" });

    const [first, ...others] = await listed();
    expect(first).toMatchObject({ ...model, object: "model", capabilities: ["chat", "completions"] });
    expect(others.map(({ id }) => id)).toEqual(served);
    const inspected = JSON.parse((await models("inspect", "imported", "--json")).stdout) as Model;
    expect(Object.keys(inspected)).toEqual([...modelFields, "path", ...headerFields]);
    expect(inspected).toMatchObject({ ...model, architecture: "llama", name: "scripted", tokenizer: "gpt2" });

    const removed = await models("rm", "imported", "--json");
    expect(JSON.parse(removed.stdout)).toEqual({ ...model, loaded: false });
    expect((await listed()).map(({ id }) => id)).toEqual(served);
    expect((await uis(["run", "imported", "Hi"], { env })).code).toBe(1);
  });

  it("pulls over HTTP: one line per ten percent and the warning on stderr, the model on stdout", async () => {
    const { code, stdout, stderr } = await models("pull", address(), "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ id: "some-model", sha256: chatSum, loaded: true });
    const lines = stderr.trimEnd().split("\n");
    expect(lines.at(-1)).toContain("warning: ");
    const progress = lines.slice(0, -1);
    expect(progress.length).toBeGreaterThanOrEqual(1);
    expect(progress.length).toBeLessThanOrEqual(11);
    expect(progress.at(-1)).toMatch(/^fetching: 100 %/);
    expect(await models("rm", "some-model")).toMatchObject({ code: 0, stdout: "some-model is removed.\n" });
  });

  it("draws a bar on a terminal's stderr, and nothing on stdout", async () => {
    const words = ["models", "pull", address(), "--id", "bar", "--json"];
    const { code, stdout, stderr } = await uis(words, { env, cwd: folder, isTTY: true });
    expect({ code, ...(JSON.parse(stdout) as Model) }).toMatchObject({ code: 0, id: "bar", loaded: true });
    const [bar = "", rest] = stderr.split("\n");
    const drawn = bar.split("\r").slice(1);
    const row = /^\p{Cc}\[J(\[#*-*\] +\d+ % {2}\S+( bytes| kB)? of 1\.9 MB( {2}\S+ [kM]B\/s {2}\d+ s left)?)?/u;
    for (const state of drawn) expect(state).toMatch(row);
    expect(drawn.at(-1)).toContain(`[${"#".repeat(30)}] 100 %`);
    expect(rest).toContain("warning: ");
    await models("rm", "bar");
  });

  it("prints no warning about the source if the digest is given", async () => {
    const { code, stdout, stderr } = await models("pull", address(), "--id", "m", "--sha256", chatSum);
    expect(code).toBe(0);
    expect(stdout).toContain("m is stored and loaded");
    expect(stderr).not.toContain("warning");
    await models("rm", "m");
  });

  it("exits 1 with the cause, and stores nothing, if a model cannot be downloaded", async () => {
    await writeFile(join(folder, "no-model.gguf"), "GGUF, they said");
    const failures: readonly (readonly [readonly string[], string])[] = [
      [["pull", address(), "--sha256", "0".repeat(64)], "SHA-256 is"],
      [["pull", "http://127.0.0.1:1/x.gguf"], "cannot be reached"],
      [["pull", "http://example.test/x.gguf"], "not encrypted"],
      [["pull", "ftp:x"], "names no source"],
      [["pull", "no-default"], "not a default model"],
      [["import", "gone.gguf"], "gone.gguf"],
      [["import", "no-model.gguf"], "GGUF"],
      [["rm", "unknown"], "unknown"],
      [["inspect", "unknown"], "no model is stored"],
      [["inspect", "no-model.gguf"], "GGUF"],
    ];
    for (const [args, cause] of failures) {
      const { code, stdout, stderr } = await models(...args);
      expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
      expect(stderr.toLowerCase()).toContain(cause.toLowerCase());
    }
    expect((await listed()).map(({ id }) => id)).toEqual(served);
  });

  it("exits 2 for wrong use, without calling the service", async () => {
    const nowhere = { UIS_URL: "http://127.0.0.1:1", UIS_DATA_DIR: service.dataDir };
    for (const args of [
      ["pull"],
      ["pull", "hf:a/b/c.gguf", "--sha256", "abc"],
      ["pull", "hf:a/b/c.gguf", "--id", "two words"],
      ["pull", "qwen3-0.6b", "--id", "mine"],
      ["import"],
      ["rm"],
      ["inspect"],
      ["fetch"],
    ]) {
      const { code, stdout } = await uis(["models", ...args], { env: nowhere });
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    }
    const unreachable = await uis(["models", "list"], { env: nowhere });
    expect(unreachable.code).toBe(1);
    expect(unreachable.stderr).toContain("no service answers");
  });
});

describe("uis models without a service", () => {
  const models = (args: readonly string[], env: Record<string, string> = {}) =>
    uis(["models", ...args], { env: { UIS_DATA_DIR: "data", ...env }, cwd: folder });
  const pullFromHub = (...args: string[]) => models(["pull", hubSource, ...args], { HF_ENDPOINT: hub.endpoint });

  it("works on the data folder with the same results, and no model is loaded", async () => {
    expect(await models(["list"])).toMatchObject({ code: 0, stdout: "" });
    const pulled = JSON.parse((await pullFromHub("--id", "a", "--json")).stdout) as Model;
    expect(Object.keys(pulled)).toEqual(modelFields);
    expect(pulled).toMatchObject({ id: "a", kind: "chat", sha256: chatSum, loaded: false });
    const imported = JSON.parse((await models(["import", encoderFile, "--json"])).stdout) as Model;
    expect(imported).toMatchObject({ id: "encoder", kind: "embedding", loaded: false });

    const notServed = { object: "model", created: null, owned_by: null, capabilities: [] };
    expect(JSON.parse((await models(["list", "--json"])).stdout)).toEqual([
      { ...pulled, ...notServed },
      { ...imported, ...notServed },
    ]);
    const { stdout } = await models(["list"]);
    expect(stdout.split("\n").map((line) => line.split(/\s+/)[0])).toEqual(["ID", "a", "encoder", ""]);
    expect(JSON.parse((await models(["inspect", "a", "--json"])).stdout)).toMatchObject({
      ...pulled,
      architecture: "llama",
    });

    expect(JSON.parse((await models(["rm", "a", "--json"])).stdout)).toEqual(pulled);
    await expect(access(join(folder, "data", "models", `${chatSum}.gguf`))).rejects.toThrow("ENOENT");
    const again = await models(["rm", "a"]);
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toContain("'a'");
  });

  it("downloads nothing when it is offline, but imports", async () => {
    const refused = await models(["pull", hubSource], { UIS_OFFLINE: "1" });
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("UIS_OFFLINE");
    expect((await models(["import", "chat.gguf", "--id", "b"], { UIS_OFFLINE: "1" })).code).toBe(0);
    await models(["rm", "b"]);
  });
});

describe("uis models inspect FILE", () => {
  it("reads the file's metadata without loading or storing it", async () => {
    const { code, stdout } = await uis(["models", "inspect", "encoder.gguf", "--json"], { cwd: folder });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      path: encoderFile,
      kind: "embedding",
      context_length: 512,
      license: null,
      architecture: "bert",
      name: "random-encoder",
      embedding_length: 64,
      tokenizer: "bert",
      tensor_count: 37,
      file_type: null,
      chat_template: null,
    });
  });

  it("prints the template at the end, without control characters (SEC-24)", async () => {
    await copyFile(chatFile, join(folder, "copy.gguf"));
    const { stdout } = await uis(["models", "inspect", "copy.gguf"], { cwd: folder });
    expect(stdout.endsWith("chat template:\n\n[31m{{ 'a' }}\n{{ 'b' }}\n")).toBe(true);
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u);
    const { stdout: json } = await uis(["models", "inspect", "copy.gguf", "--json"], { cwd: folder });
    expect(JSON.parse(json)).toMatchObject({ chat_template: "\u001b[31m{{ 'a' }}\r\n\u0007{{ 'b' }}" });
  });
});
