import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { chatOf, createChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay } from "../../conformance/rpc/ways.js";
import { uis } from "../../support/cli-run.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { hasPython } from "../../support/python-venv.js";
import { ServiceClient } from "../../support/service-client.js";
import { spawnServe } from "../../support/service-process.js";
import { LlamaServer } from "../../support/upstream/llama-server.js";

const text = "Hello from llama.cpp.";
const slots = 3;

let folder: string;
let server: LlamaServer;

/** Starts the service as the documents say, in the folder with `uis.yaml`, and asks each model over REST and gRPC. */
async function firstAnswers(models: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<void> {
  const service = spawnServe({ cwd: folder, env });
  onTestFinished(async () => {
    service.child.kill("SIGTERM");
    await service.exited;
    await rm(join(folder, "data"), { recursive: true, force: true });
  });
  const { api, grpc, api_key: created } = await service.ready;
  const key = env["UIS_BOOTSTRAP_API_KEY"] ?? created?.secret ?? "";
  const client = new ServiceClient(api, key);
  const way = openWay("grpc", { grpc, http: api, key });
  for (const model of models) {
    const rest = await client.chat(model);
    expect([model, rest.status, rest.text]).toEqual([model, 200, expect.stringContaining(text)]);
    const { messages, failure } = await way.call(createChatCompletion, chatOf(model));
    expect([model, failure]).toEqual([model, null]);
    expect(messages[0]?.completion?.choices[0]?.message?.content).toBe(text);
  }
  way.close();
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("a new user with a running llama.cpp server", () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-new-user-"));
    const file = join(folder, "small.gguf");
    await writeScriptedGguf(file, { text });
    server = await LlamaServer.start({ file, slots, contextLength: 1_024 });
  }, 300_000);
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("gets first answers over REST and gRPC with the block that `uis upstreams check` prints", async () => {
    const { code, stdout, stderr } = await uis(["upstreams", "check", server.url]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const block = /paste this into uis\.yaml:\n\n(.*?)\n\nThen start/s.exec(stdout)?.[1] ?? "";
    expect(block).toContain("- id: small\n");
    expect(block).toContain(`slots: ${slots}`);
    await writeFile(join(folder, "uis.yaml"), block);
    await firstAnswers(["small"]);
  });

  it("gets first answers from three models of a LiteLLM configuration that `uis config import litellm` translates", async () => {
    const litellm = {
      model_list: [
        { model_name: "fast", litellm_params: { model: "openai/a", api_base: server.url, api_key: "none", rpm: 100 } },
        { model_name: "fast", litellm_params: { model: "llamafile/b", api_base: server.url, rpm: 50 } },
        { model_name: "smart", litellm_params: { model: "hosted_vllm/c", api_base: "http://127.0.0.1:9/v1" } },
        {
          model_name: "other",
          litellm_params: { model: "openai/d", api_base: server.url, api_key: "os.environ/OTHER" },
        },
      ],
      litellm_settings: { fallbacks: [{ smart: ["fast"] }] },
      general_settings: { master_key: "sk-12345678" },
    };
    const file = join(folder, "litellm.yaml");
    await writeFile(file, JSON.stringify(litellm));
    const imported = await uis(["config", "import", "litellm", file]);
    expect({ code: imported.code, stderr: imported.stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining("3 models with 4 deployments"),
    });
    expect(imported.stdout).toContain("  openai-compatible:\n");
    const config = join(folder, "uis.yaml");
    await writeFile(config, imported.stdout);
    const env = { OTHER: "key", UIS_BOOTSTRAP_API_KEY: "sk-12345678" };
    expect(await uis(["config", "check", config], { env })).toMatchObject({ code: 0, stderr: "" });
    // No server listens for `smart`, so its fallback answers.
    await firstAnswers(["fast", "smart", "other"], env);
  });
});
