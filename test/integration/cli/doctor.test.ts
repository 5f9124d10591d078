import { once } from "node:events";
import { access, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Check } from "../../../src/app/doctor/check.js";
import { uis } from "../../support/cli-run.js";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type RedisServer, type RedisServerOptions, startRedis } from "../../support/redis/start-redis.js";

let cwd: string;
const freePorts = { PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0" };
/** Variables that locate the engine and pip; nothing uses the network unless a test allows it. */
const surroundings = { PATH: process.env["PATH"] ?? "", UIS_OFFLINE: "1" };

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-doctor-"));
});

afterEach(async () => {
  await rm(cwd, { recursive: true });
});

async function doctor(env: Record<string, string> = {}): Promise<{ code: number; checks: readonly Check[] }> {
  const { code, stdout } = await uis(["doctor", "--json"], { cwd, env: { ...freePorts, ...surroundings, ...env } });
  return { code, checks: JSON.parse(stdout) as Check[] };
}

const find = (checks: readonly Check[], name: string) => checks.find(({ check }) => check === name);
const statusOf = (checks: readonly Check[], name: string) => find(checks, name)?.status;

describe("uis doctor", () => {
  it("exits 0 if a service could start, and every finding has its four fields", async () => {
    const { code, checks } = await doctor();
    expect(code).toBe(0);
    expect(checks.map(({ check }) => check)).toEqual([
      ...[
        "node",
        "sqlite",
        "cpu",
        "open_files",
        "config",
        "data_dir",
        "engine",
        "gpu",
        "models",
        "memory",
        "hub",
        "pip",
        "disk",
      ],
      ...["port_http", "port_grpc", "port_ops", "tls", "data_files", "state", "clock", "bind", "webhook_egress"],
    ]);
    for (const check of checks) {
      expect(Object.keys(check)).toEqual(["check", "status", "detail", "fix"]);
      expect(check.fix === null).toBe(check.status === "ok");
    }
    expect(statusOf(checks, "sqlite")).toBe("ok");
    expect(statusOf(checks, "data_dir")).toBe("ok");
    expect(statusOf(checks, "bind")).toBe("ok");
    expect(find(checks, "engine")).toMatchObject({ status: "ok", detail: expect.stringContaining("3.21.1") });
    expect(find(checks, "hub")).toMatchObject({ status: "ok", detail: "not contacted: offline" });
    expect(find(checks, "disk")?.detail).toMatch(/^[\d.]+ (MB|GB|TB) free for /);
    expect(find(checks, "cpu")?.detail).toMatch(/^\d+ cores, /);
    expect(find(checks, "open_files")?.detail).toMatch(/^at most (\d+|unlimited) open files$/);
    expect(find(checks, "node")?.detail).toContain(process.versions.node);
    expect(find(checks, "clock")).toMatchObject({ status: "ok", detail: expect.stringContaining("not compared") });
    expect(find(checks, "webhook_egress")).toMatchObject({
      status: "ok",
      detail: "only HTTPS to public addresses, on the ports 443 and from 1024",
    });
  });

  it("exits 1 with the cause if the configuration is invalid", async () => {
    await writeFile(join(cwd, "uis.yaml"), "data_dir: data\nserver: { prt: 1 }\n");
    const { code, checks } = await doctor();
    expect(code).toBe(1);
    expect(find(checks, "config")).toMatchObject({
      status: "fail",
      detail: expect.stringMatching(/uis\.yaml:2:\d+: /),
    });
    expect(find(checks, "config")?.fix).toContain("uis config check");
  });

  it("fails if a port is in use", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, checks } = await doctor({ PORT: String(port) });
    other.close();
    expect(code).toBe(1);
    expect(statusOf(checks, "port_http")).toBe("fail");
  });

  it("fails for an invalid secret, and does not show it", async () => {
    const { code, checks } = await doctor({ UIS_ADMIN_TOKEN: "hunter2" });
    expect(code).toBe(1);
    expect(find(checks, "config")).toMatchObject({
      status: "fail",
      detail: expect.stringContaining("UIS_ADMIN_TOKEN"),
    });
    expect(JSON.stringify(checks)).not.toContain("hunter2");
  });

  it("fails for missing TLS files", async () => {
    const broken = await doctor({ UIS_SERVER_TLS_CERT_FILE: "gone.pem", UIS_SERVER_TLS_KEY_FILE: "gone.pem" });
    expect(statusOf(broken.checks, "tls")).toBe("fail");
  });

  it("fails if the file with the operators' token is unusable", async () => {
    const { code, checks } = await doctor({ UIS_SERVER_OPS_TOKEN_FILE: "gone.token" });
    expect(code).toBe(1);
    expect(find(checks, "ops_token")).toMatchObject({ status: "fail", fix: expect.stringContaining("openssl rand") });
  });

  it("warns of risky settings and of unknown variables (WH-41)", async () => {
    const open = "webhooks: { allow_http: true, allow_private_cidrs: [10.0.0.0/8] }\n";
    await writeFile(join(cwd, "uis.yaml"), open);
    const { code, checks } = await doctor({ UIS_GRPC_PRT: "1", UIS_STATE_DURABILITY: "none", HOST: "0.0.0.0" });
    expect(code).toBe(0);
    expect(find(checks, "variables")?.fix).toContain("UIS_GRPC_PORT");
    expect(statusOf(checks, "state")).toBe("warn");
    expect(find(checks, "bind")).toMatchObject({ status: "warn", fix: expect.stringContaining("server.tls") });
    const found = checks.filter(({ check }) => check === "webhook_egress");
    expect(found.map(({ status }) => status)).toEqual(["warn", "warn"]);
    expect(found.map(({ detail }) => detail).join()).toMatch(/allow_http.*10\.0\.0\.0\/8/);
  });

  it("adds up the memory of the stored models and their configured contexts", async () => {
    await writeRandomGguf(join(cwd, "chat.gguf"));
    expect((await uis(["models", "import", "chat.gguf", "--id", "m"], { cwd })).code).toBe(0);
    const taken = async () => find((await doctor()).checks, "memory")?.detail.split("take ")[1];
    const usual = await taken();
    expect(usual).toMatch(/^[\d.]+ (kB|MB)$/);
    await writeFile(join(cwd, "uis.yaml"), "models: [{ id: m, engine: llama, slots: 256 }]\n");
    expect(await taken()).not.toBe(usual);
    await writeFile(join(cwd, "uis.yaml"), "models: [{ id: other, engine: scripted }]\n");
    const { checks } = await doctor();
    expect(statusOf(checks, "models")).toBe("ok");
    expect(find(checks, "memory")?.detail).toContain("take 0 bytes");
  });

  it("fails if the build of the embedded engine is missing", async () => {
    const elsewhere = await doctor({ UIS_ENGINE_MODULE_DIR: cwd });
    expect(elsewhere.code).toBe(1);
    expect(find(elsewhere.checks, "engine")).toMatchObject({ status: "fail", detail: expect.stringContaining(cwd) });
  });

  it("warns if there is no chat model, with remedies, and creates no data folder", async () => {
    const { code, checks } = await doctor();
    expect(code).toBe(0);
    const models = find(checks, "models");
    expect(models?.status).toBe("warn");
    for (const way of ["uis models pull", "uis models import", "uis.yaml"]) expect(models?.fix).toContain(way);
    await expect(access(join(cwd, "data"))).rejects.toThrow("ENOENT");

    await writeRandomGguf(join(cwd, "chat.gguf"));
    const imported = await uis(["models", "import", "chat.gguf"], { cwd });
    expect(imported.code).toBe(0);
    expect(statusOf((await doctor()).checks, "models")).toBe("ok");
  });

  it("needs no chat model on this machine if upstreams are configured", async () => {
    await writeFile(join(cwd, "uis.yaml"), "upstreams: { gpu: { url: http://127.0.0.1:9/v1 } }\n");
    expect(statusOf((await doctor()).checks, "models")).toBe("ok");
  });

  it("fails for a configured model file that is missing, and counts the memory of an existing one", async () => {
    const file = join(cwd, "chat.gguf");
    const config = (path: string) => `models: [{ id: mine, engine: llama, source: "file:${path}" }]\n`;
    await writeFile(join(cwd, "uis.yaml"), config(file));
    const without = await doctor();
    expect(without.code).toBe(1);
    expect(find(without.checks, "models")).toMatchObject({ status: "fail", detail: expect.stringContaining(file) });
    await writeRandomGguf(file);
    const { checks } = await doctor();
    expect(statusOf(checks, "models")).toBe("ok");
    expect(find(checks, "memory")?.detail).toMatch(/models and contexts take [1-9]/);
  });

  it("fails if the index of models is damaged", async () => {
    await mkdir(join(cwd, "data", "models"), { recursive: true });
    await writeFile(join(cwd, "data", "models", "index.json"), "[]");
    const { code, checks } = await doctor();
    expect(code).toBe(1);
    expect(find(checks, "models")).toMatchObject({ status: "fail", detail: expect.stringContaining("index.json") });
  });

  it("contacts the hub unless it is offline, and compares the clock with the hub's", async () => {
    const at = { aheadMs: 0 };
    const hub = createHttpServer((_, res) => {
      res.setHeader("date", new Date(Date.now() + at.aheadMs).toUTCString()).end();
    }).listen(0, "127.0.0.1");
    await once(hub, "listening");
    const endpoint = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
    const online = { UIS_OFFLINE: "0", HF_ENDPOINT: endpoint };
    const { checks } = await doctor(online);
    expect(statusOf(checks, "hub")).toBe("ok");
    expect(find(checks, "clock")).toMatchObject({ status: "ok", detail: expect.stringContaining(endpoint) });
    at.aheadMs = -3_600_000;
    const wrong = await doctor(online);
    expect(wrong.code).toBe(1);
    expect(find(wrong.checks, "clock")).toMatchObject({
      status: "fail",
      fix: expect.stringContaining("set the clock"),
    });
    hub.close();
    hub.closeAllConnections();
    const away = await doctor(online);
    expect(away.code).toBe(0);
    expect(find(away.checks, "hub")).toMatchObject({ status: "warn", fix: expect.stringContaining("HF_ENDPOINT") });
  });

  it("looks for pip on the PATH, which is only needed for downloads", async () => {
    const bin = join(cwd, "bin");
    await mkdir(bin);
    const online = { PATH: bin, UIS_OFFLINE: "0", HF_ENDPOINT: "http://127.0.0.1:1" };
    expect(statusOf((await doctor(online)).checks, "pip")).toBe("warn");
    expect(statusOf((await doctor({ PATH: bin })).checks, "pip")).toBe("ok");
    await writeFile(join(bin, "pip"), "", { mode: 0o755 });
    expect(find((await doctor(online)).checks, "pip")).toMatchObject({ status: "ok", detail: join(bin, "pip") });
  });

  it("checks a configured Redis server", async () => {
    const { code, checks } = await doctor({ REDIS_URL: "redis://127.0.0.1:1" });
    expect(code).toBe(1);
    expect(statusOf(checks, "redis")).toBe("fail");
  });
});

describe("uis doctor with a Redis server", () => {
  let redis: RedisServer | null = null;
  afterEach(async () => {
    await redis?.remove();
    redis = null;
  });

  /** Findings about Redis, and the complete output as JSON and as text. */
  async function doctorOf(url: string) {
    const env = { ...freePorts, ...surroundings, REDIS_URL: url };
    const results = [await uis(["doctor", "--json"], { cwd, env }), await uis(["doctor"], { cwd, env })];
    const checks = (JSON.parse(results[0]?.stdout ?? "") as Check[]).filter(({ check }) =>
      /^(redis|clock)/.test(check),
    );
    return { code: results[0]?.code, checks, printed: results.map(({ stdout, stderr }) => stdout + stderr).join("") };
  }

  it("is ok if the server syncs each write", async () => {
    redis = await startRedis({ aof: "always" });
    const { code, checks } = await doctorOf(redis.url);
    expect(code).toBe(0);
    const detail = expect.stringMatching(/^answers within [\d.]+ ms; durability every-write$/);
    expect(checks).toEqual([
      { check: "redis", status: "ok", detail, fix: null },
      { check: "clock", status: "ok", detail: "agrees with the clock of Redis", fix: null },
    ]);
  });

  it("warns if the server can lose a second of writes at a power cut", async () => {
    redis = await startRedis({ aof: "everysec" });
    const { code, checks } = await doctorOf(redis.url);
    expect(code).toBe(0);
    expect(checks).toMatchObject([
      { check: "redis", status: "ok" },
      { check: "redis_durability", status: "warn", detail: expect.stringContaining("appendfsync always") },
      { check: "clock", status: "ok" },
    ]);
  });

  it.each([
    ["without an append-only file", { aof: "no" }, "appendonly no", "set appendonly yes"],
    [
      "that evicts",
      { args: ["--maxmemory-policy", "volatile-lru"] },
      "volatile-lru",
      "set maxmemory-policy noeviction",
    ],
  ] satisfies [string, RedisServerOptions, string, string][])("fails for %s", async (_, options, cause, fix) => {
    redis = await startRedis(options);
    const { code, checks } = await doctorOf(redis.url);
    expect(code).toBe(1);
    expect(checks).toMatchObject([
      { check: "redis", status: "fail", detail: expect.stringContaining(cause), fix: expect.stringContaining(fix) },
      { check: "clock", status: "ok" },
    ]);
  });

  it("never prints the password, and reports a wrong one (SEC-18)", async () => {
    redis = await startRedis({ aof: "always", acl: true, rules: "+config|get" });
    const right = new URL(redis.url).password;
    const accepted = await doctorOf(redis.url);
    expect([accepted.code, accepted.checks.map(({ status }) => status)]).toEqual([0, ["ok", "ok"]]);
    const refused = await doctorOf(redis.url.replace(right, "wr0ng-passw%40rd"));
    expect(refused.code).toBe(1);
    expect(refused.checks[0]).toMatchObject({ status: "fail", detail: expect.stringContaining("WRONGPASS") });
    expect(refused.checks[0]?.fix).toMatch(/password/);
    for (const secret of [right, decodeURIComponent(right)]) expect(accepted.printed).not.toContain(secret);
    for (const secret of ["wr0ng-passw%40rd", "wr0ng-passw@rd"]) expect(refused.printed).not.toContain(secret);
  });
});
