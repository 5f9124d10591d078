import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { loadConfig } from "../../../../src/app/config/load-config.js";
import { ConfigError, formatProblem } from "../../../../src/app/config/problem.js";
import { configSchema } from "../../../../src/app/config/schema.js";
import { redacted } from "../../../../src/app/config/setting-list.js";
import { upstreamKeyVariable } from "../../../../src/app/config/upstream-settings.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-upstreams-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function load(text: string, env: Record<string, string> = {}) {
  await writeFile(join(folder, "uis.yaml"), text);
  return (await loadConfig({ env, cwd: folder })).config;
}

/** Every problem as `line:column path: message`. */
async function problemsOf(text: string, env: Record<string, string> = {}): Promise<readonly string[]> {
  const error: unknown = await load(text, env).catch((thrown: unknown) => thrown);
  if (!(error instanceof ConfigError)) throw new Error("the configuration was accepted");
  return error.problems.map((problem) => formatProblem(problem, "f").slice(2));
}

const contractExample = `
upstreams:
  gpu: { url: http://vllm:8000/v1, kind: vllm,
         key_file: null, keys_file: null, headers: {}, discover: off, connect: 5s, first_byte: 60s, idle: 30s, total: 600s, tls: {},
         native: [] }
models:
  - id: llama-8b
    engine: scripted
  - id: llama-70b
    affinity: prefix
    fallbacks: [llama-8b]
    defaults: { temperature: null, top_p: null, min_p: null, repetition_penalty: null, max_tokens: null, stop: null, system: null }
    deployments:
      - { engine: openai, upstream: gpu, model: meta-llama/Llama-3.3-70B-Instruct, id: null, slots: 256, weight: 1, priority: 0, prices: {}, pass_through: [], context_length: null, capabilities: null }
`;

const model = (rest: string) => `upstreams:\n  gpu: { url: http://h/v1 }\nmodels:\n  - id: m\n${rest}`;

describe("settings of upstreams", () => {
  it("have the documented defaults", async () => {
    const { upstreams } = await load("upstreams: { gpu: { url: http://vllm:8000/v1 } }\n");
    const tls = { ca_file: null, cert_file: null, key_file: null, server_name: null };
    const times = { connect: 5_000, first_byte: 60_000, idle: 30_000, total: 600_000 };
    const keys = { key: null, key_file: null, keys_file: null };
    expect(upstreams).toEqual({
      gpu: {
        url: "http://vllm:8000/v1",
        kind: "generic",
        api_version: null,
        ...keys,
        headers: {},
        discover: null,
        ...times,
        tls,
        native: [],
      },
    });
  });

  it("accept the complete example of an upstream", async () => {
    const complete = await load(contractExample);
    expect(complete.upstreams["gpu"]).toMatchObject({ kind: "vllm", discover: "off", total: 600_000 });
    expect(complete.models?.[1]).toMatchObject({ affinity: "prefix", fallbacks: ["llama-8b"] });
  });

  it("can be set together by one variable", async () => {
    const env = { UIS_UPSTREAMS: "{ gpu: { url: http://h/v1, discover: 5s } }" };
    expect((await load("", env)).upstreams["gpu"]?.discover).toBe(5_000);
  });

  it("are shown without their keys and headers (SEC-18)", async () => {
    const config = await load(
      `upstreams: { gpu: { url: http://h/v1, key: "$\{K}", discover: 1m, headers: { x-team: canary-2 } } }\n`,
      { K: "canary-1" },
    );
    const shown = redacted(z.encode(configSchema, structuredClone(config)));
    expect(JSON.stringify(shown)).not.toContain("canary");
    expect(shown.upstreams?.["gpu"]).toMatchObject({
      key: "***",
      headers: { "x-team": "***" },
      discover: "1m",
      total: "10m",
    });
  });

  it.each([
    ["gpu-1", "UIS_UPSTREAM_GPU_1_KEY"],
    ["a.b_c", "UIS_UPSTREAM_A_B_C_KEY"],
  ])("of %s have the key variable %s", (name, variable) => {
    expect(upstreamKeyVariable(name)).toBe(variable);
  });

  it.each([
    ["a: {}", "2:3: upstreams.a.url: must be text"],
    [
      "a: { url: http://169.254.169.254/v1 }",
      "2:8: upstreams.a.url: is a link-local or metadata address, which is never called: set the address of the inference server",
    ],
    [
      "a: { url: http://h, kind: tgi }",
      "2:23: upstreams.a.kind: must be one of openai, azure, vllm, sglang, llama-server, ollama, ray, anthropic, generic",
    ],
    ["a: { url: http://h, discovr: off }", '2:23: upstreams.a.discovr: unknown setting (did you mean "discover"?)'],
    [
      "a: { url: http://h, discover: 500ms }",
      "2:23: upstreams.a.discover: must be off, or a time between 1s and 1d such as 30s",
    ],
    ["a: { url: http://h, connect: 1ms }", "2:23: upstreams.a.connect: must be between 10ms and 10m"],
    ["a: { url: http://h, key: k, key_file: f }", "2:31: upstreams.a.key_file: is set, and key too: set one of them"],
    [
      "a: { url: http://h, key_file: f, keys_file: g }",
      "2:36: upstreams.a.keys_file: is set, and key_file too: set one of them",
    ],
    [
      "a: { url: http://h, key: a b }",
      "2:23: upstreams.a.key: must be 1 to 8,192 printable ASCII characters without spaces",
    ],
    [
      "a: { url: http://h, api_version: v1 }",
      "2:23: upstreams.a.api_version: is only for the kind azure: remove it, or set kind: azure",
    ],
    [
      "a: { url: https://n.openai.azure.com/openai/v1, kind: azure }",
      "2:8: upstreams.a.url: must be the resource for the kind azure, such as https://NAME.openai.azure.com, without /openai",
    ],
    [
      "a: { url: http://h, tls: { ca_file: f } }",
      "2:23: upstreams.a.tls: is set, but the url begins with http://: use https://",
    ],
    [
      "a: { url: https://h, tls: { cert_file: f } }",
      "2:24: upstreams.a.tls.key_file: is required: set the certificate and its key together",
    ],
    ["a: { url: http://h, headers: { Host: x } }", "2:34: upstreams.a.headers.Host: is set by the service: remove it"],
    [
      'a: { url: http://h, headers: { x-a: "a\\nb" } }',
      "2:34: upstreams.a.headers.x-a: must be 1 to 8,192 printable ASCII characters, without a space at the begin or end",
    ],
    [
      "a: { url: http://h, headers: { x-a: a, X-A: b } }",
      "2:23: upstreams.a.headers: x-a is set twice, in different spellings: remove one",
    ],
    ["a: { url: http://h, native: [chat] }", "2:32: upstreams.a.native[0]: must be one of responses, messages"],
    [
      "a: { url: http://h, kind: ollama, native: [messages] }",
      "2:37: upstreams.a.native: is for the kinds openai, anthropic, vllm, llama-server, generic alone: remove it",
    ],
    [
      "a/b: { url: http://h }",
      "2:3: upstreams.a/b: must be a name of an upstream: 1 to 64 of a-z, A-Z, 0-9 and . _ -, beginning with a letter or digit",
    ],
    [
      "embedded: { url: http://h }",
      "2:3: upstreams.embedded: is reserved for deployments without an upstream: rename it",
    ],
  ])("are rejected: %s", async (entry, problem) => {
    expect(await problemsOf(`upstreams:\n  ${entry}\n`)).toEqual([problem]);
  });

  it("must not have names with the same key variable", async () => {
    expect(await problemsOf("upstreams:\n  gpu-1: { url: http://h }\n  gpu_1: { url: http://h }\n")).toEqual([
      "3:3: upstreams.gpu_1: has the variable UIS_UPSTREAM_GPU_1_KEY, as gpu-1 has: rename one of them",
    ]);
  });
});

describe("deployments of upstreams", () => {
  it("can be written as a model without a list of deployments", async () => {
    const { models } = await load(model("    engine: openai\n    upstream: gpu\n    slots: 65536\n"));
    expect(models?.[0]).toMatchObject({ engine: "openai", upstream: "gpu", slots: 65_536 });
  });

  it.each([
    [
      "    engine: openai\n",
      "4:5: models[0].upstream: is required for the engine openai: set the name of an entry of upstreams",
    ],
    [
      "    engine: openai\n    upstream: cpu\n",
      '6:5: models[0].upstream: "cpu" is not in upstreams: add it there, or name another; there are gpu',
    ],
    ["    engine: scripted\n    upstream: gpu\n", "6:5: models[0].upstream: is not valid for the engine scripted"],
    [
      "    engine: openai\n    upstream: gpu\n    source: hf:a\n",
      "7:5: models[0].source: is not valid for the engine openai",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    slots: 65537\n",
      "7:5: models[0].slots: must be a whole number between 1 and 65536",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    pass_through: [stream]\n",
      "7:20: models[0].pass_through[0]: is a field that the service sets itself: remove it",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    affinity: sticky\n",
      "7:5: models[0].affinity: must be one of prefix, session, none",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    fallbacks: [m]\n",
      "7:17: models[0].fallbacks[0]: is the model itself: remove it",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    defaults: { temperature: 3 }\n",
      "7:17: models[0].defaults.temperature: must be a number from 0 to 2",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    defaults: { stop: [], repetition_penalty: 0 }\n",
      "7:27: models[0].defaults.repetition_penalty: must be above 0",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    defaults: { stop: [a, b, c, d, e] }\n",
      "7:17: models[0].defaults.stop: must be a text or a list of at most 4 texts",
    ],
    [
      "    engine: openai\n    upstream: gpu\n    capabilities: [embeddings]\n    defaults: { system: Hi }\n",
      "8:5: models[0].defaults: apply to generated text, which this model does not create: remove them",
    ],
    [
      "    deployments:\n      - { engine: scripted, capabilities: [chat] }\n",
      "6:29: models[0].deployments[0].capabilities: is not valid for the engine scripted",
    ],
    [
      "    deployments:\n      - { engine: openai, upstream: gpu, capabilities: [tools] }\n",
      "6:42: models[0].deployments[0].capabilities: needs an operation: the list is complete, so add one of chat, completions, embeddings, rerank",
    ],
    [
      "    deployments:\n      - { engine: openai, upstream: gpu, capabilities: [embeddings, chat] }\n",
      "6:42: models[0].deployments[0].capabilities: a model that creates text creates neither embeddings nor rankings: use one model for each",
    ],
    [
      "    deployments:\n      - { engine: openai, upstream: gpu, capabilities: [chat, tool] }\n",
      "6:63: models[0].deployments[0].capabilities[1]: must be one of chat, completions, embeddings, rerank, tools, tool_choice, json_object, json_schema, logprobs, n, vision, audio, reasoning",
    ],
    [
      "    deployments:\n      - { engine: openai, upstream: gpu, priority: -1 }\n",
      "6:42: models[0].deployments[0].priority: must be a whole number between 0 and 100",
    ],
    [
      "    deployments:\n      - { engine: openai, upstream: gpu, id: a }\n      - { engine: openai, upstream: gpu, id: a }\n",
      '7:42: models[0].deployments[1].id: "a" is used by another deployment',
    ],
  ])("are rejected: %s", async (rest, problem) => {
    expect(await problemsOf(model(rest))).toEqual([problem]);
  });

  it("may have defaults for every option that the servers of all their deployments accept", async () => {
    const withMinP = (kind: string) =>
      `upstreams: { gpu: { url: http://h/v1, kind: vllm }, other: { url: http://o/v1, kind: ${kind} } }\nmodels:\n` +
      "  - id: m\n    defaults: { min_p: 0.1, stop: END }\n    deployments:\n" +
      "      - { engine: openai, upstream: gpu }\n      - { engine: openai, upstream: other }\n";
    expect((await load(withMinP("sglang"))).models?.[0]?.defaults).toMatchObject({ min_p: 0.1, stop: "END" });
    expect(await problemsOf(withMinP("openai"))).toEqual([
      '4:17: models[0].defaults.min_p: is not an option of the upstream "other" of kind openai: remove it, or set another kind if the server has it',
    ]);
  });

  it("may have fallbacks that are not configured models, and fallbacks that name each other", async () => {
    const elsewhere = "models:\n  - { id: m, engine: scripted, fallbacks: [any] }\n";
    expect((await load(elsewhere)).models?.[0]?.fallbacks).toEqual(["any"]);
    const mutual =
      "models:\n  - { id: a, engine: scripted, fallbacks: [b] }\n  - { id: b, engine: scripted, fallbacks: [a] }\n";
    expect((await load(mutual)).models).toHaveLength(2);
  });
});
