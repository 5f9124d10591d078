import { chmod, readdir, stat, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { version } from "../../../src/contract/version.js";
import { uis } from "../../support/cli-run.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";
import { openSlowLink } from "../../support/redis/slow-link.js";
import { startRedis } from "../../support/redis/start-redis.js";
import { type ServeProcess, ServiceFolder, type SpawnOptions } from "../../support/service-process.js";

let folder: ServiceFolder;
let cwd: string;

beforeEach(async () => {
  folder = await ServiceFolder.create();
  cwd = folder.folder;
});

afterEach(() => folder.remove());

function serve(options: Partial<SpawnOptions> = {}): ServeProcess {
  return folder.spawn({ ...options, env: { UIS_STATE_DURABILITY: "none", ...options.env } });
}

const slowModel = `models:
  - id: slow
    engine: scripted
    scripted: { text: "tick", tokens: 100000, token_delay_ms: 20 }
`;

/** Starts a stream, and resolves after its first chunk. */
async function startStream(api: string, key: string) {
  const response = await fetch(`${api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "slow", stream: true, messages: [{ role: "user", content: "x" }] }),
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = decoder.decode((await reader.read()).value);
  const rest = async (): Promise<string> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += decoder.decode(value);
    }
  };
  return { rest };
}

describe("uis serve --json", () => {
  it("prints exactly one line with the documented keys and correct values", async () => {
    await writeFile(join(cwd, "uis.yaml"), slowModel);
    const service = serve();
    const line = await service.ready;
    expect(Object.keys(line)).toEqual([
      "event",
      "version",
      "api",
      "grpc",
      "ops",
      "dashboard",
      "api_key",
      "models",
      "data_dir",
      "state",
    ]);
    expect(line).toMatchObject({ event: "ready", version, models: ["slow"], state: "volatile" });
    expect(line.dashboard).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/dashboard\/setup#token=[0-9A-Za-z]{43}$/);
    expect(line.api_key).toMatchObject({ name: "default", scope: "read_write" });
    const models = await fetch(`${line.api}/models`, { headers: { authorization: `Bearer ${line.api_key?.secret}` } });
    expect(models.status).toBe(200);
    expect((await fetch(`${line.ops}/ready`)).status).toBe(200);
    expect((await stat(join(cwd, "data"))).mode & 0o777).toBe(0o700);
    expect(await readdir(line.data_dir)).toEqual(["admin.token", "models", "service.json"]);

    service.child.kill("SIGTERM");
    expect(await service.exited).toBe(0);
    expect(service.stdout().split("\n")).toHaveLength(2);
    expect(await readdir(line.data_dir)).toEqual(["models"]);
  });

  it("shows no key if the operator set one, and accepts that key", async () => {
    const service = serve({ env: { UIS_BOOTSTRAP_API_KEY: "an-own-key-of-mine" } });
    const line = await service.ready;
    expect(line.api_key).toBeNull();
    const models = await fetch(`${line.api}/models`, { headers: { authorization: "Bearer an-own-key-of-mine" } });
    expect(models.status).toBe(200);
    expect(service.stdout() + service.stderr()).not.toContain("an-own-key-of-mine");
  });
});

describe("the default catalog on a slow Redis", () => {
  it("lists the models on disk before it is ready, and never answers 404 for a model that is loading", async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.remove());
    const link = await openSlowLink(redis.port);
    onTestFinished(() => link.close());
    link.delayMs = 25;
    const file = join(cwd, "mine.gguf");
    await writeTinyGguf(file);
    const dataDir = join(cwd, "data");
    expect(await uis(["models", "import", file, "--id", "mine", "--data-dir", dataDir])).toMatchObject({ code: 0 });
    const env = {
      UIS_STATE_DURABILITY: "every-write",
      UIS_LIMITS_QUEUE_WAIT: "100ms",
      REDIS_URL: link.url,
      UIS_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
    };
    for (const args of [["--json"], ["--json", "--model", `file:${file}`]]) {
      const service = serve({ env: { ...env, UIS_BOOTSTRAP_API_KEY: "an-own-key-of-mine" }, args });
      const line = await service.ready;
      expect(line.models).toContain("mine");
      const asked = await fetch(`${line.api}/chat/completions`, {
        method: "POST",
        headers: { authorization: "Bearer an-own-key-of-mine", "content-type": "application/json" },
        body: JSON.stringify({ model: "mine", messages: [{ role: "user", content: "x" }] }),
      });
      expect([asked.status, await asked.text()]).toEqual([503, expect.stringMatching(/"code":"model_(not_)?load/)]);
      service.child.kill("SIGKILL");
      await service.exited;
    }
  });
});

it("uis serve prints its start as text with a curl line that works unchanged, and logs in the form of log.format", async () => {
  await writeFile(join(cwd, "uis.yaml"), "models: [{ id: it's, engine: scripted }]\n".replace("it's", "test-chat"));
  const service = serve({ args: [], env: { UIS_LOG_FORMAT: "pretty" } });
  await expect.poll(() => service.stdout(), { timeout: 30_000 }).toContain("Ctrl-C");
  const curl = /^ {2}curl -N (\S+) -H "(.+?): (.+?)" -H "(.+?): (.+?)" -d '(.+)'$/m.exec(service.stdout());
  const [, url = "", name1 = "", value1 = "", name2 = "", value2 = "", body = ""] = curl ?? [];
  const answer = await fetch(url, { method: "POST", headers: { [name1]: value1, [name2]: value2 }, body });
  expect(answer.status).toBe(200);
  expect((await answer.text()).match(/"content":"[^"]*"/g)?.join("")).toContain("7");
  const line =
    /^\d\d:\d\d:\d\d info {2}create_chat_completion test-chat: completed in [\d.]+ s, \d+ tokens in, \d+ out {2}\S+$/m;
  await expect.poll(() => service.stderr()).toMatch(line);
  expect(service.stderr()).not.toContain("{");
});

describe("uis serve after SIGTERM", () => {
  it("lets a running stream finish, rejects new calls during that time, and exits 0 (REL-10)", async () => {
    await writeFile(join(cwd, "uis.yaml"), slowModel.replace("100000", "50"));
    const service = serve();
    const line = await service.ready;
    const stream = await startStream(line.api, line.api_key?.secret ?? "");
    service.child.kill("SIGTERM");
    await expect.poll(async () => (await fetch(`${line.ops}/ready`)).status).toBe(503);
    const headers = { authorization: `Bearer ${line.api_key?.secret}` };
    const late = await fetch(`${line.api}/models`, { headers });
    expect([late.status, late.headers.get("connection")]).toEqual([503, "close"]);
    expect(await late.text()).toContain("server_shutting_down");
    expect(await stream.rest()).toContain("data: [DONE]");
    expect(await service.exited).toBe(0);
  });

  it("aborts an unfinished stream with an error event and without [DONE] (REL-10)", async () => {
    await writeFile(join(cwd, "uis.yaml"), slowModel);
    const service = serve({ env: { UIS_LIMITS_DRAIN: "200ms" } });
    const line = await service.ready;
    const stream = await startStream(line.api, line.api_key?.secret ?? "");
    service.child.kill("SIGINT");
    const text = await stream.rest();
    expect(text).toContain("server_shutting_down");
    expect(text).not.toContain("[DONE]");
    expect(await service.exited).toBe(0);
  });

  it("exits immediately with 1 at the second signal (REL-10)", async () => {
    await writeFile(join(cwd, "uis.yaml"), slowModel);
    const service = serve();
    const line = await service.ready;
    await startStream(line.api, line.api_key?.secret ?? "");
    service.child.kill("SIGTERM");
    await expect.poll(() => service.stderr()).toContain('"stopping"');
    service.child.kill("SIGTERM");
    expect(await service.exited).toBe(1);
  });

  it("accepts requests during server.drain_delay", async () => {
    await writeFile(join(cwd, "uis.yaml"), slowModel);
    const service = serve({ env: { UIS_SERVER_DRAIN_DELAY: "1s" } });
    const line = await service.ready;
    service.child.kill("SIGTERM");
    await expect.poll(() => service.stderr()).toContain('"stopping"');
    const headers = { authorization: `Bearer ${line.api_key?.secret}` };
    expect((await fetch(`${line.api}/models`, { headers })).status).toBe(200);
    expect(await service.exited).toBe(0);
  });
});

describe("a failing start", () => {
  const failed = async (options: Partial<SpawnOptions>) => {
    const service = serve(options);
    const code = await service.exited;
    expect(service.stdout()).toBe("");
    const lines = service.stderr().trimEnd().split("\n");
    return { code, lines };
  };

  it("exits 2 with one line for a port in use, on every listener", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const port = String((other.address() as AddressInfo).port);
    for (const [name, flag] of [
      ["PORT", "--port"],
      ["UIS_GRPC_PORT", "--grpc-port"],
      ["UIS_OPS_PORT", "--ops-port"],
    ] as const) {
      const { code, lines } = await failed({ env: { [name]: port } });
      expect(code).toBe(2);
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain(`port ${port} on 127.0.0.1 cannot be used: it is already in use`);
      expect(lines[0]).toContain(flag);
    }
    other.close();
  });

  it("exits 2 with the position of a problem in the configuration", async () => {
    await writeFile(join(cwd, "uis.yaml"), "server:\n  prt: 1\n");
    const { code, lines } = await failed({});
    expect(code).toBe(2);
    expect(lines).toEqual([`uis: ${join(cwd, "uis.yaml")}:2:3: server.prt: unknown setting (did you mean "port"?)`]);
  });

  it("exits 2 for an invalid secret, a data folder that is a file, and missing TLS files", async () => {
    await writeFile(join(cwd, "file"), "");
    await chmod(join(cwd, "file"), 0o600);
    const starts: Partial<SpawnOptions>[] = [
      { env: { UIS_ADMIN_TOKEN: "too-short" } },
      { env: { UIS_DATA_DIR: "file" } },
      { env: { UIS_SERVER_TLS_CERT_FILE: "gone.pem", UIS_SERVER_TLS_KEY_FILE: "gone.pem" } },
      { env: { UIS_BOOTSTRAP_API_KEY: "sk-uis-0000000000000000000000000000000000000000000000000" } },
    ];
    for (const options of starts) {
      const { code, lines } = await failed(options);
      expect(code).toBe(2);
      expect(lines).toHaveLength(1);
    }
  });
});
