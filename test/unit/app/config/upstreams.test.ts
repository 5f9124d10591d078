import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect, isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../../../src/app/config/load-config.js";
import { ConfigError, formatProblem } from "../../../../src/app/config/problem.js";
import { readUpstreams } from "../../../../src/app/config/upstreams.js";
import { uis } from "../../../support/cli-run.js";
import { type Authority, makeAuthority } from "../../../support/receivers/authority.js";

let folder: string;
let authority: Authority;

beforeAll(() => {
  authority = makeAuthority();
});

afterAll(() => authority.close());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-upstreams-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const put = (name: string, text: string) => writeFile(join(folder, name), text);

async function read(text: string, env: Record<string, string> = {}) {
  await put("uis.yaml", text);
  return readUpstreams(await loadConfig({ env, cwd: folder }), { env, cwd: folder });
}

/** Reads a configuration in which the upstream `gpu` has these settings. */
async function readOne(settings: string, env: Record<string, string> = {}) {
  const [upstream] = await read(`upstreams:\n  gpu: { url: "https://h/v1/", ${settings} }\n`, env);
  if (upstream === undefined) throw new Error("there is no upstream");
  return upstream;
}

async function problemsOf(settings: string, env: Record<string, string> = {}): Promise<readonly string[]> {
  const error: unknown = await readOne(settings, env).catch((thrown: unknown) => thrown);
  if (!(error instanceof ConfigError)) throw new Error("the upstreams were accepted");
  return error.problems.map((problem) => formatProblem(problem, "f").replaceAll(folder, "DIR"));
}

const keysOf = ({ keys }: Awaited<ReturnType<typeof readOne>>) => keys.map((key) => key.reveal());

describe("the keys of an upstream", () => {
  it("come from the variable, otherwise from a file with one key or one key per line", async () => {
    await put("one", "sk-1\n");
    await put("many", "# team a\nsk-1\r\n\n  sk-2  \n# sk-3\nsk-1\n");
    expect(keysOf(await readOne(""))).toEqual([]);
    expect(keysOf(await readOne("key_file: one"))).toEqual(["sk-1"]);
    expect(keysOf(await readOne("keys_file: many"))).toEqual(["sk-1", "sk-2"]);
    expect(keysOf(await readOne(`key: "$\{K}"`, { K: "123" }))).toEqual(["123"]);
    expect(keysOf(await readOne("key_file: gone", { UIS_UPSTREAM_GPU_KEY: "sk-4" }))).toEqual(["sk-4"]);
    expect(keysOf(await readOne("", { UIS_UPSTREAM_GPU_KEY_FILE: join(folder, "one") }))).toEqual(["sk-1"]);
  });

  it("do not occur in any text form of the definition (SEC-18)", async () => {
    await put("one", "sk-canary-1\n");
    const upstream = await readOne("key_file: one, headers: { x-team: canary-2 }");
    expect(inspect(upstream, { depth: 9 }) + JSON.stringify(upstream)).not.toContain("canary");
    expect(upstream.headers["x-team"]?.reveal()).toBe("canary-2");
  });

  it("change the definition when their file changes", async () => {
    await put("one", "sk-1\n");
    const before = await readOne("key_file: one");
    expect(isDeepStrictEqual(before, await readOne("key_file: one"))).toBe(true);
    await put("one", "sk-2\n");
    expect(isDeepStrictEqual(before, await readOne("key_file: one"))).toBe(false);
  });

  it.each([
    [
      "key_file: gone",
      "f:2:32: upstreams.gpu.key_file: cannot be read: ENOENT: no such file or directory, stat 'DIR/gone'; check the path and its permissions",
    ],
    [
      "key_file: empty",
      "f:2:32: upstreams.gpu.key_file: DIR/empty is empty: write the content into it, or remove the setting",
    ],
    [
      "key_file: many",
      "f:2:32: upstreams.gpu.key_file: must have one key: 1 to 8,192 printable ASCII characters without spaces; for several, set keys_file",
    ],
    [
      "keys_file: notes",
      "f:2:32: upstreams.gpu.keys_file: line 2 of notes is not one key: 1 to 8,192 printable ASCII characters without spaces",
    ],
    [
      "keys_file: comments",
      "f:2:32: upstreams.gpu.keys_file: comments has no key: write one per line, or remove the setting",
    ],
    [
      "key_file: good, headers: { Authorization: Basic x }",
      "f:2:48: upstreams.gpu.headers: has authorization, but the upstream also has a key: remove one of them",
    ],
  ])("are rejected and not shown: %s", async (settings, problem) => {
    await put("good", "sk-canary\n");
    await put("empty", "\n");
    await put("many", "sk-canary\nsk-canary\n");
    await put("notes", "sk-canary\nsk-canary # old\n");
    await put("comments", "# none\n");
    expect(await problemsOf(settings)).toEqual([problem]);
    expect(problem).not.toContain("canary");
  });

  it("of a variable are rejected and not shown if they are invalid", async () => {
    expect(await problemsOf("", { UIS_UPSTREAM_GPU_KEY: "two words" })).toEqual([
      "UIS_UPSTREAM_GPU_KEY: must be one key: 1 to 8,192 printable ASCII characters without spaces",
    ]);
    expect(await problemsOf("", { UIS_UPSTREAM_GPU_KEY: "a", UIS_UPSTREAM_GPU_KEY_FILE: "b" })).toEqual([
      "UIS_UPSTREAM_GPU_KEY: is set, and UIS_UPSTREAM_GPU_KEY_FILE too: set one of them",
    ]);
  });
});

describe("uis config check", () => {
  it("reads the files of upstreams, and reports all problems with those of other secrets", async () => {
    await put("uis.yaml", "upstreams:\n  gpu: { url: http://h/v1, key_file: gone }\n");
    const env = { UIS_ADMIN_TOKEN: "short" };
    const { code, stdout } = await uis(["config", "check", "--json"], { cwd: folder, env });
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject([
      { line: 2, column: 28, path: "upstreams.gpu.key_file" },
      { line: null, column: null, path: "UIS_ADMIN_TOKEN" },
    ]);
    await put("gone", "sk-1");
    expect((await uis(["config", "check"], { cwd: folder })).code).toBe(0);
  });
});

describe("the definition of an upstream", () => {
  it("has the configured settings, and defaults for all others", async () => {
    expect(await readOne("kind: vllm, headers: { X-Team: a }, connect: 1s, native: [responses]")).toMatchObject({
      name: "gpu",
      kind: "vllm",
      url: "https://h/v1",
      apiVersion: null,
      keys: [],
      connectMs: 1_000,
      firstByteMs: 60_000,
      idleMs: 30_000,
      totalMs: 600_000,
      native: ["responses"],
      tls: { ca: null, cert: null, key: null, serverName: null },
    });
  });

  it("never lets a call take longer than limits.deadline", async () => {
    const totalOf = async (rest: string) =>
      (await read(`upstreams: { gpu: { url: http://h, total: 5m } }\n${rest}`))[0]?.totalMs;
    expect(await totalOf("")).toBe(300_000);
    expect(await totalOf("limits: { deadline: 90s }\n")).toBe(90_000);
  });

  it("discovers models every 30 s by default, but not if a configured model names the upstream", async () => {
    const discoverOf = async (discover: string, named: boolean) => {
      const models = named ? "models: [{ id: m, engine: openai, upstream: gpu }]\n" : "models: []\n";
      return (await read(`upstreams: { gpu: { url: http://h${discover} } }\n${models}`))[0]?.discoverMs;
    };
    expect(await discoverOf("", false)).toBe(30_000);
    expect(await discoverOf("", true)).toBeNull();
    expect(await discoverOf(", discover: 5s", true)).toBe(5_000);
    expect(await discoverOf(", discover: off", false)).toBeNull();
  });

  it("has the verified contents of its TLS files", async () => {
    const { cert, key } = authority.issue(["h"]);
    await put("ca.pem", authority.ca);
    await put("cert.pem", cert);
    await put("key.pem", key);
    await put("other.pem", "not PEM");
    const { tls } = await readOne(
      "tls: { ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem, server_name: gpu.lan }",
    );
    expect(tls).toMatchObject({ ca: authority.ca, cert, serverName: "gpu.lan" });
    expect(tls.key?.reveal()).toBe(key);
    const [bad] = await problemsOf("tls: { ca_file: other.pem }");
    expect(bad).toMatch(/^f:2:39: upstreams\.gpu\.tls\.ca_file: cannot be used: .*; set a PEM file$/);
    const [pair] = await problemsOf("tls: { cert_file: ca.pem, key_file: key.pem }");
    expect(pair).toMatch(/^f:2:39: upstreams\.gpu\.tls\.cert_file: cannot be used: .*; set a PEM file$/);
  });
});
