import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { startRedis } from "../../support/redis/start-redis.js";
import { startService } from "../../support/start-service.js";

const run = promisify(execFile);
const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };

const serviceOn = (url: string, variables = env) =>
  startService({ config: { state: { redis_url: url, durability: "every-write" } }, env: variables });
const statusOf = async (api: string, key: string) =>
  (await fetch(`${api}/models`, { headers: { authorization: `Bearer ${key}` } })).status;

it("a backup of Redis that is created and restored as docs/operations.md describes has the keys of its time (USE-20)", async () => {
  const page = await readFile("docs/operations.md", "utf8");
  for (const step of [
    "redis-cli --rdb",
    "`dump.rdb`",
    "`--appendonly no`",
    "config set appendonly yes",
    "aof_rewrite",
  ]) {
    expect(page).toContain(step);
  }
  const folder = await mkdtemp(join(tmpdir(), "uis-rdb-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const copy = join(folder, "uis.rdb");

  const redis = await startRedis({ aof: "always" });
  const first = await serviceOn(redis.url);
  const { key } = first;
  await run("redis-cli", ["-p", String(redis.port), "--rdb", copy]);
  const late = await first.service.parts.apiKeys.create({ name: "late", scope: "read" });
  await first.close();
  await redis.remove();

  const empty = await mkdtemp(join(tmpdir(), "uis-redis-"));
  await copyFile(copy, join(empty, "dump.rdb"));
  const loading = await startRedis({ aof: "no", folder: empty });
  await loading.cli("config", "set", "appendonly", "yes");
  const rewritten = async () => (await loading.cli("info", "persistence")).includes("aof_rewrite_in_progress:0");
  await eventually(rewritten, "the append-only file is written");
  await loading.stop();

  const restored = await startRedis({ aof: "always", folder: empty });
  onTestFinished(() => restored.remove());
  const second = await serviceOn(restored.url);
  expect(await statusOf(second.api, key)).toBe(200);
  expect(await statusOf(second.api, late.secret)).toBe(401);
  await second.close();
  const otherKey = { UIS_MASTER_KEY: randomBytes(32).toString("base64") };
  await expect(serviceOn(restored.url, otherKey)).rejects.toThrow("the master key is not the one");
}, 60_000);
