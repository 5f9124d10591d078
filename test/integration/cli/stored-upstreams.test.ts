import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CliOptions, uis } from "../../support/cli-run.js";
import { type RunningService, startService } from "../../support/start-service.js";
import type { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { startScriptedUpstream } from "../../support/upstream/scripted-upstream.js";

const script = { text: "one two", tokens: 2, tokenDelayMs: 0, contextLength: 1_000, embeddingDims: 4 };

let upstream: RawUpstream;
let service: RunningService;
beforeAll(async () => {
  upstream = await startScriptedUpstream(script);
  const upstreams = { fixed: { url: upstream.url, kind: "vllm", discover: "off" } };
  service = await startService({ config: { models: [], upstreams } });
});
afterAll(async () => {
  await service.close();
  await upstream.close();
});

/** Runs `uis upstreams …` for the running service. */
function upstreams(words: readonly string[], options: CliOptions = {}) {
  const env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
  return uis(["upstreams", ...words], { env, ...options });
}

async function upstreamsJson(words: readonly string[]): Promise<unknown> {
  const { code, stdout, stderr } = await upstreams([...words, "--json"]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

describe("uis upstreams add", () => {
  it("detects the kind of the server, and sends it the key from stdin, which is never shown", async () => {
    const key = "key-of-this-test-0123";
    const { code, stdout, stderr } = await upstreams(["add", "gpu", "--url", upstream.url, "--key-file", "-"], {
      stdin: `${key}\n`,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/\ngpu +stored +vllm +http:\S+ {2}3 of 3 ready {2}chat, embedder, reranker\n$/);
    expect(upstream.requests.at(-1)?.headers["authorization"]).toBe(`Bearer ${key}`);
    const listed = await upstreams(["list", "--json"]);
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { name: "fixed", source: "config", models: [], discovers_models: false },
      { name: "gpu", source: "stored", discovers_models: true, key_count: 1, key_hint: "0123" },
    ]);
    expect(listed.stdout).not.toContain(key);
    expect((await upstreams(["rm", "gpu"])).stdout).toBe("gpu is deleted. Its running requests end normally.\n");
    expect((await upstreams(["list"])).stdout).toMatch(/\nfixed +config +vllm +http:\S+ {2}0 of 0 ready\n$/);
  });

  it("adds a server that does not answer only if --kind is set, and the list then names the problem", async () => {
    const words = ["add", "away", "--url", "http://127.0.0.1:1/v1"];
    const refused = await upstreams(words);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^uis: .*cannot be reached.*or set --kind to add it all the same\n$/);
    const added = await upstreams([...words, "--kind", "vllm"]);
    expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining("cannot be reached") });
    expect((await upstreams(["list"])).stdout).toContain("cannot be reached");
    await upstreams(["rm", "away"]);
  });

  it.each([
    { words: ["embedded", "--url", "http://gpu/v1", "--kind", "vllm"], says: "'name' is reserved" },
    { words: ["a b", "--url", "http://gpu/v1", "--kind", "vllm"], says: "'name' must be 1 to 64 of" },
    { words: ["fixed", "--url", "http://gpu/v1", "--kind", "vllm"], says: "is part of the configuration" },
    { words: ["gpu", "--url", "http://169.254.169.254/v1", "--kind", "vllm"], says: "link-local or metadata address" },
    {
      words: ["gpu", "--url", "http://gpu/v1", "--kind", "ollama", "--native", "messages"],
      says: "for the kinds openai",
    },
    { words: ["az", "--url", "https://x.openai.azure.com", "--kind", "azure"], says: "'models' is required" },
  ])("rejects $words: $says", async ({ words, says }) => {
    const { code, stdout, stderr } = await upstreams(["add", ...words]);
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(says) });
  });

  it("rejects an empty key on stdin, and a key file that cannot be read", async () => {
    const words = ["add", "gpu", "--url", upstream.url, "--key-file"];
    expect(await upstreams([...words, "-"])).toMatchObject({ code: 2, stderr: expect.stringContaining("no API key") });
    const gone = await upstreams([...words, "gone.key"]);
    expect(gone).toMatchObject({ code: 2, stderr: expect.stringContaining("--key-file cannot be read") });
  });
});

describe("uis upstreams drain", () => {
  it("gives a deployment no new requests until --undo", async () => {
    const place = ["--weight", "3", "--priority", "1", "--slots", "9"];
    const added = await upstreamsJson([
      ...["add", "gpu", "--url", upstream.url, "--models", "chat", "--native", "messages,responses"],
      ...place,
    ]);
    expect(added).toMatchObject({ native: ["responses", "messages"] });
    const drained = await upstreams(["drain", "gpu/chat"]);
    expect(drained.stdout).toBe("gpu/chat gets no new requests; 0 still run.\n");
    const { stdout } = await upstreams(["list"]);
    expect(stdout).toContain("0 of 1 ready");
    expect(stdout).toContain("\n  gpu/chat  draining: It gets no new requests");
    expect(await upstreamsJson(["drain", "gpu/chat", "--undo"])).toMatchObject({
      id: "gpu/chat",
      state: "ready",
      weight: 3,
      priority: 1,
      slots: 9,
    });
    expect((await upstreams(["drain", "gpu/chat", "--undo"])).stdout).toBe("gpu/chat is no longer drained.\n");
    await upstreams(["rm", "gpu"]);
  });
});
