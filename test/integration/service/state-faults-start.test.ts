import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";

let served: ServiceFolder;
let redis: RedisServer | null = null;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(async () => {
  await served.remove();
  await redis?.remove();
  redis = null;
});

const env = { LOG_LEVEL: "error" };
const config = { models: [{ id: "m", engine: "scripted" }] };
const newMasterKey = () => randomBytes(32).toString("base64");

describe("a second service on the data folder of a running one", () => {
  it("fails with exit code 2, the cause and the fix, and the first service continues", async () => {
    const { line } = await served.start(config, { env });
    const second = await served.refused(config, { env });
    expect(second).toEqual({ code: 2, line: expect.stringMatching(/data directory .* in use .*--data-dir/) });
    const client = new ServiceClient(line.api, line.api_key?.secret ?? "");
    expect((await client.chat("m")).status).toBe(200);
    // Commands still find the token of the first service.
    expect(await readFile(join(served.dataDir, "admin.token"), "utf8")).toContain("uis-admin-");
  });
});

describe("a data folder that cannot be used", () => {
  it("makes the start fail with exit code 2 and one line: path, cause and fix (E-24, E-29)", async () => {
    await mkdir(served.dataDir);
    await writeFile(join(served.dataDir, "spool"), "");
    const { exited, stderr } = served.spawn({ env });
    expect(await exited).toBe(2);
    expect(stderr()).toBe(
      `uis: ${served.dataDir}/spool cannot be used: it is a file, and must be a folder; move it away\n`,
    );
    await rm(join(served.dataDir, "spool"));
    await mkdir(join(served.dataDir, "spool"));
    const lost = await served.refused(config, { env });
    expect(lost).toEqual({
      code: 2,
      line: expect.stringMatching(/uis\.db is missing, but there is spool.*uis serve --new-store$/),
    });
    expect(await readdir(served.dataDir)).toEqual(["spool"]);
  });
});

describe("the master key", () => {
  const masterKeyFile = () => join(served.dataDir, "master.key");

  it("is created once in the data folder, readable only by its owner (USE-17)", async () => {
    const first = await served.start(config, { env });
    const made = await readFile(masterKeyFile(), "utf8");
    expect((await stat(masterKeyFile())).mode & 0o777).toBe(0o600);
    expect(Buffer.from(made, "base64")).toHaveLength(32);
    first.child.kill("SIGKILL");
    await first.exited;
    await served.start(config, { env });
    expect(await readFile(masterKeyFile(), "utf8")).toBe(made);
  });

  it("makes the start fail with exit code 2 if it is missing, invalid or different, and the error names the right key (USE-18)", async () => {
    const first = await served.start(config, { env });
    const made = await readFile(masterKeyFile(), "utf8");
    first.child.kill("SIGKILL");
    await first.exited;

    await rm(masterKeyFile());
    const lost = await served.refused(config, { env });
    expect(lost).toEqual({ code: 2, line: expect.stringMatching(/master\.key is missing.*restore it/) });
    const another = await served.refused(config, { env: { ...env, UIS_MASTER_KEY: newMasterKey() } });
    expect(another).toEqual({ code: 2, line: expect.stringMatching(/master key is not the one.*former key/) });
    await writeFile(masterKeyFile(), "no key");
    const malformed = await served.refused(config, { env });
    expect(malformed).toEqual({
      code: 2,
      line: expect.stringMatching(/master\.key does not contain a master key.*restore the former/),
    });

    // With the original master key all data is readable as before, including API keys of clients.
    const back = await served.start(config, { env: { ...env, UIS_MASTER_KEY: made.trim() } });
    const client = new ServiceClient(back.line.api, first.line.api_key?.secret ?? "");
    expect((await client.chat("m")).status).toBe(200);
  });

  it("must be provided by the operator if replicas share a Redis: a start without it or with another key fails (USE-17)", async () => {
    redis = await startRedis();
    const withRedis = { ...env, REDIS_URL: redis.url };
    const without = await served.refused(config, { env: withRedis });
    expect(without).toEqual({ code: 2, line: expect.stringMatching(/UIS_MASTER_KEY is not set.*openssl rand/) });
    const UIS_MASTER_KEY = newMasterKey();
    await served.start(config, { env: { ...withRedis, UIS_MASTER_KEY } });
    const another = await served.refused(config, { env: { ...withRedis, UIS_MASTER_KEY: newMasterKey() } });
    expect(another).toEqual({ code: 2, line: expect.stringMatching(/master key is not the one/) });
    await served.start(config, { env: { ...withRedis, UIS_MASTER_KEY } });
  });
});

describe("a Redis that would lose acknowledged data", () => {
  const withRedis = ({ url }: RedisServer) => ({ env: { ...env, REDIS_URL: url, UIS_MASTER_KEY: newMasterKey() } });

  it("makes the start fail with exit code 2 and a fix if it evicts keys", async () => {
    redis = await startRedis({ args: ["--maxmemory-policy", "allkeys-lru"] });
    const evicting = await served.refused(config, withRedis(redis));
    expect(evicting).toEqual({ code: 2, line: expect.stringMatching(/allkeys-lru.*set maxmemory-policy noeviction/) });
    // `allow_volatile` does not accept eviction.
    const accepted = { ...config, state: { allow_volatile: true } };
    expect((await served.refused(accepted, withRedis(redis))).code).toBe(2);
  });

  it("makes the start fail with exit code 2 if it has no append-only file, unless allow_volatile is set, which causes a warning", async () => {
    redis = await startRedis({ aof: "no" });
    const refused = await served.refused(config, withRedis(redis));
    expect(refused).toEqual({ code: 2, line: expect.stringMatching(/appendonly no.*allow_volatile/) });
    const { line } = await served.start({ ...config, state: { allow_volatile: true } }, withRedis(redis));
    const ready = (await (await fetch(`${line.ops}/ready`)).json()) as object;
    expect(ready).toMatchObject({ status: "ready", state: { kind: "redis", ok: true, durability: "none" } });
  });
});
