import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../../../src/app/config/load-config.js";
import { toModelRoutes } from "../../../../src/app/config/model-routes.js";
import { readUpstreams } from "../../../../src/app/config/upstreams.js";
import { uis } from "../../../support/cli-run.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-litellm-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Values for the variables to which the printed file refers: the variable's name, or a URL where one is needed. */
function variablesOf(yaml: string): Record<string, string> {
  const names = [...yaml.matchAll(/\$\{([A-Z0-9_]+)\}/g)].map(([, name]) => String(name));
  return Object.fromEntries(
    names.map((name) => [name, name.endsWith("_BASE") ? "http://base:11434" : `key-of-${name}`]),
  );
}

async function importText(text: string) {
  await writeFile(join(folder, "litellm.yaml"), text);
  const result = await uis(["config", "import", "litellm", "litellm.yaml"], { cwd: folder });
  expect(result.code).toBe(0);
  return { yaml: result.stdout, report: result.stderr, ...(await loadPrinted(result.stdout)) };
}

const importFile = async (name: string) => importText(await readFile(join(import.meta.dirname, name), "utf8"));

/** Loads the printed file as a start does. */
async function loadPrinted(yaml: string) {
  await writeFile(join(folder, "uis.yaml"), yaml);
  const env = variablesOf(yaml);
  const loaded = await loadConfig({ env, cwd: folder });
  const upstreams = readUpstreams(loaded, { env, cwd: folder });
  return { config: loaded.config, upstreams, routes: toModelRoutes(loaded.config, upstreams) };
}

const entry = (params: string, rest = "") => `model_list:\n  - model_name: m\n    litellm_params: ${params}\n${rest}`;

/** The upstream of a file with this one entry. */
const upstreamOf = async (params: string, rest = "") => (await importText(entry(params, rest))).upstreams[0];

describe("uis config import litellm", () => {
  it("prints a configuration of three models that loads", async () => {
    const { routes, upstreams, report } = await importFile("three-models.yaml");
    expect(routes.map(({ id, deployments }) => [id, deployments.map((one) => one.id)])).toEqual([
      ["gpt-4o", ["openai/gpt-4o"]],
      ["llama-70b", ["gpu-1/meta-llama/Llama-3.3-70B-Instruct", "gpu-2/meta-llama/Llama-3.3-70B-Instruct"]],
      ["embed", ["ollama/nomic-embed-text"]],
    ]);
    expect(routes[1]).toMatchObject({ affinity: "prefix", fallbacks: ["gpt-4o"] });
    expect(upstreams.map(({ kind, url }) => [kind, url])).toEqual([
      ["openai", "https://api.openai.com/v1"],
      ["vllm", "http://gpu-1:8000/v1"],
      ["vllm", "http://gpu-2:8000/v1"],
      ["ollama", "http://base:11434/v1"],
    ]);
    expect(upstreams[0]?.keys.map((key) => key.reveal())).toEqual(["key-of-OPENAI_API_KEY"]);
    expect(report).toBe(
      "model_list has 4 entries: 3 models with 4 deployments on 4 upstreams. To do: 0; changed: 0; left out: 0.\n",
    );
  });

  it("prints a configuration of the larger example that loads", async () => {
    const { routes, config, upstreams } = await importFile("many-models.yaml");
    const shares = Object.fromEntries(
      routes.map(({ id, deployments }) => [id, deployments.map((one) => [one.id, one.weight, one.priority])]),
    );
    expect(shares["gpt-4"]).toEqual([
      ["azure-eu", 1, 0],
      ["ca-resource/gpt-4-ca", 10, 1],
      ["openai/gpt-4-turbo", 100, 1],
    ]);
    expect(shares["gpt-4-latest"]?.map(([id]) => id)).toEqual([
      "eu-resource/gpt-4-eu",
      "ca-resource/gpt-4-ca#2",
      "openai/gpt-4-turbo#2",
    ]);
    expect(shares["fast"]).toEqual([
      ["groq/llama-3.1-8b-instant", 7, 0],
      ["cerebras/llama3.1-8b", 3, 0],
    ]);
    expect(routes.find(({ id }) => id === "fast")?.deployments[0]?.slots).toBe(40);
    expect(config.models?.find(({ id }) => id === "fast")?.prices).toEqual({ input: 50, output: 80 });
    expect(routes.find(({ id }) => id === "gpt-4")).toMatchObject({ fallbacks: ["claude", "titan-2", "fast"] });
    expect(config.limits["deadline"]).toBe(900_000);
    expect(upstreams.find(({ name }) => name === "openai")).toMatchObject({ totalMs: 900_000, firstByteMs: 20_000 });
    expect(upstreams.find(({ name }) => name === "groq")).toMatchObject({ totalMs: 300_000, discoverMs: 30_000 });
    expect(upstreams.filter(({ kind }) => kind === "azure").map(({ url, apiVersion }) => [url, apiVersion])).toEqual([
      ["https://eu-resource.openai.azure.com", "2024-10-21"],
      ["https://ca-resource.openai.azure.com", null],
    ]);
    const operations = routes.flatMap(({ id, deployments }) =>
      deployments.flatMap(({ upstream }) => upstream?.capabilities?.operations.map((name) => [id, name]) ?? []),
    );
    expect(operations).toEqual([
      ["rerank", "rerank"],
      ["embeddings", "embeddings"],
      ["instruct", "completions"],
    ]);
  });

  it("lists each step left to the operator, and each omitted setting with its reason, on a line of its own", async () => {
    const { yaml, report } = await importFile("many-models.yaml");
    const comments = yaml
      .split("\n")
      .filter((line) => line.trimStart().startsWith("#"))
      .map((line) => line.trim());
    const expected = [
      "to do: api_key: the key in the LiteLLM file is not repeated here; if the server checks it, write it into a file and set key_file, or set UIS_UPSTREAM_OPENAI_KEY",
      "to do: header x-api-token: is a secret and not repeated here: set it to a reference to a variable",
      "to do: general_settings.master_key: for clients that use it set UIS_BOOTSTRAP_API_KEY to the same key, which is not repeated here (8 characters at least); administrators use UIS_ADMIN_TOKEN",
      "left out: model_list[12] (titan): the provider bedrock has no API of OpenAI's form; a proxy with OpenAI's API in front of it can be an upstream",
      "left out: model_list[13] (pictures): its mode image_generation is not served: only chat, completions, embeddings and reranking are",
      "left out: model_list[14] (metadata): api_base is a link-local or metadata address, which is never called: set the address of the inference server",
      "left out: model_list[17] (nowhere): api_base is missing: nothing says where its server is",
      "left out: temperature: is set in defaults of a model, if all of its deployments have the same value in its range",
      "left out: litellm_settings.num_retries: retries follow a retry budget: 20 % of a model's requests and 10 a second",
      "left out: guardrails: has no counterpart",
    ];
    for (const line of expected) {
      expect(comments).toContain(`# ${line}`);
      expect(report).toContain(`${line}\n`);
    }
    const [counts, ...lines] = report.trimEnd().split("\n");
    expect(counts).toMatch(/^model_list has 20 entries: 10 models with 15 deployments on 10 upstreams\. To do: 5;/);
    const sorts = lines.map((line) => line.slice(0, line.indexOf(":")));
    expect(sorts).toEqual([...sorts].sort((a, b) => order.indexOf(a) - order.indexOf(b)));
  });

  it("prints no secret of the file (SEC-18)", async () => {
    const { yaml, report } = await importFile("many-models.yaml");
    expect(yaml + report).not.toContain("canary");
  });

  it("prints one JSON document with --json", async () => {
    await writeFile(join(folder, "litellm.yaml"), entry("{ model: openai/gpt-4o, seed: 1 }"));
    const { stdout } = await uis(["config", "import", "litellm", "litellm.yaml", "--json"], { cwd: folder });
    expect(JSON.parse(stdout)).toMatchObject({
      yaml: expect.stringContaining("model: gpt-4o"),
      notes: [{ sort: "left out", what: "seed", of: { list: "models", name: "m" } }],
    });
  });

  it.each([
    ["{ model: openai/gpt-4o }", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"],
    ["{ model: gpt-4o-mini }", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"],
    ["{ model: openai/any, api_base: http://h:1/v1 }", "generic", "http://h:1/v1", "OPENAI_API_KEY"],
    [
      "{ model: azure/d, api_key: os.environ/AK, api_base: https://n.openai.azure.com/openai/v1/ }",
      "azure",
      "https://n.openai.azure.com",
      "AK",
    ],
    ["{ model: hosted_vllm/a/b }", "vllm", "http://base:11434", null],
    ["{ model: ollama/llama3 }", "ollama", "http://localhost:11434/v1", null],
    ["{ model: ollama_chat/llama3, api_base: 'http://h:11434/' }", "ollama", "http://h:11434/v1", null],
    [
      "{ model: anthropic/claude-x, api_base: https://api.anthropic.com }",
      "anthropic",
      "https://api.anthropic.com/v1",
      "ANTHROPIC_API_KEY",
    ],
    ["{ model: claude-x }", "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"],
    [
      "{ model: gemini/gemini-2.5-pro }",
      "generic",
      "https://generativelanguage.googleapis.com/v1beta/openai",
      "GEMINI_API_KEY",
    ],
    ["{ model: openrouter/openai/gpt-4o }", "generic", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"],
    ["{ model: llamafile/x }", "llama-server", "http://127.0.0.1:8080/v1", null],
  ])("reaches %s as kind %s", async (params, kind, url, variable) => {
    expect(await upstreamOf(params)).toMatchObject({ kind, url });
    const keys = (await upstreamOf(params))?.keys.map((key) => key.reveal());
    expect(keys).toEqual(variable === null ? [] : [`key-of-${variable}`]);
  });

  it("shares an upstream between entries with the same server and key, and separates others", async () => {
    const list = ["a, api_key: os.environ/K1", "b, api_key: os.environ/K2", "c, api_key: os.environ/K1"];
    const entries = list.map((rest, i) => `  - { model_name: m${i}, litellm_params: { model: openai/${rest} } }\n`);
    const { routes } = await importText(`model_list:\n${entries.join("")}`);
    expect(routes.map(({ deployments }) => deployments[0]?.id)).toEqual(["openai/a", "openai-2/b", "openai/c"]);
  });

  it("turns options of requests that all deployments of a model share into its defaults", async () => {
    const params = ["temperature: 0.2, max_tokens: 500, top_p: 7", "temperature: '0.2', max_tokens: 400"];
    const entries = params.map(
      (rest, i) => `  - { model_name: m, litellm_params: { model: openai/a${i}, ${rest} } }\n`,
    );
    const { config, report } = await importText(`model_list:\n${entries.join("")}`);
    expect(config.models?.[0]?.defaults).toMatchObject({ temperature: 0.2, max_tokens: null, top_p: null });
    expect(report).toMatch(/^left out: max_tokens: /m);
    expect(report).toMatch(/^left out: top_p: /m);
  });

  it("escapes a value that looks like a reference to a variable", async () => {
    const upstream = await upstreamOf(`{ model: openai/a, extra_headers: { x-a: 'a$\{B}c' } }`);
    expect(upstream?.headers["x-a"]?.reveal()).toBe(`a$\{B}c`);
  });

  it.each([
    ["model_lists: []\n", "has no model_list: name the configuration of a LiteLLM proxy"],
    ["model_list: [\n", "litellm.yaml:2:1: "],
    ["model_list:\n  - model_name: *\n", "must be in quotes"],
  ])("rejects a file without a usable list: %j", async (text, message) => {
    await writeFile(join(folder, "litellm.yaml"), text);
    const { code, stdout, stderr } = await uis(["config", "import", "litellm", "litellm.yaml"], { cwd: folder });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
  });

  it("rejects a file that does not exist, and a source other than litellm", async () => {
    const gone = await uis(["config", "import", "litellm", "gone.yaml"], { cwd: folder });
    expect(gone).toMatchObject({ code: 2, stderr: expect.stringContaining("cannot be read") });
    expect(await uis(["config", "import", "nginx", "x"])).toMatchObject({ code: 2 });
  });

  it("prints a valid configuration for arbitrary values of an entry", async () => {
    const odd = [
      "''",
      "null",
      "0",
      "-1",
      "1.0e+30",
      "true",
      "[]",
      "{}",
      "'a b'",
      "os.environ/",
      "os.environ/A-B",
      `'$\{X}'`,
      "'\u0000'",
      "ä",
    ];
    const names = [
      "model",
      "api_base",
      "api_key",
      "api_version",
      "organization",
      "extra_headers",
      "timeout",
      "stream_timeout",
      "weight",
      "order",
      "rpm",
      "max_parallel_requests",
      "input_cost_per_token",
      "custom_llm_provider",
      "litellm_credential_name",
    ];
    for (const provider of ["openai/a", "azure/a", "ollama/a"]) {
      const entries = names.flatMap((name) =>
        odd.map(
          (value, i) =>
            `  - { model_name: ${name}-${i}, litellm_params: { ${name === "model" ? "" : `model: ${provider}, `}${name}: ${value} } }\n`,
        ),
      );
      const info = odd.map(
        (value, i) =>
          `  - { model_name: i${i}, litellm_params: { model: ${provider} }, model_info: { id: ${value} } }\n`,
      );
      const { routes } = await importText(`model_list:\n${[...entries, ...info].join("")}`);
      expect(routes.length).toBeGreaterThan(100);
    }
  });
});

const order = ["to do", "changed", "left out"];
