/**
 * Writes the fixtures of a release: `npx tsx scripts/release-fixtures.ts FOLDER`, run in a checkout of that
 * release into which this file and the files of `test/support` that it imports were copied. See test/fixtures/releases/README.md.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createSystemClock } from "../src/lib/clock.js";
import { openEmbeddedState } from "../src/state/embedded/state.js";
import { openRedisState } from "../src/state/redis/state.js";
import { contentOf, fillState, toJson } from "../test/support/full-state.js";
import { dumpRedis } from "../test/support/redis/redis-dump.js";
import { startRedis } from "../test/support/redis/start-redis.js";
import { silentLog } from "../test/support/silent-log.js";

/** The store's time at the beginning. */
const beganAtMs = Date.UTC(2026, 10, 23, 12);

const [folder = "."] = process.argv.slice(2);
const shiftMs = beganAtMs - Date.now();
const clock = { ...createSystemClock(), now: () => Date.now() + shiftMs };

const dataDir = await mkdtemp(join(tmpdir(), "uis-release-"));
const embedded = await openEmbeddedState({ dataDir, log: silentLog, clock });
await fillState(embedded);
const backup = join(dataDir, "backup.db");
await embedded.backup?.(backup);
await writeFile(join(folder, "uis.db.gz"), gzipSync(await readFile(backup), { level: 9 }));
await writeFile(join(folder, "uis.db.json"), toJson(await contentOf(embedded, beganAtMs)));
await embedded.close();
await rm(dataDir, { recursive: true });

const server = await startRedis({ aof: "always" });
const options = { url: server.url, tls: null, log: silentLog, clock: createSystemClock(), allowVolatile: false };
const redis = await openRedisState({ ...options, timeShiftMs: () => shiftMs });
await redis.health();
await fillState(redis);
const dump = await dumpRedis(server.url);
const lines = dump.filter(([name]) => !name.endsWith("}:replicas")).map((key) => JSON.stringify(key));
await writeFile(join(folder, "redis.jsonl"), `${lines.join("\n")}\n`);
await writeFile(join(folder, "redis.json"), toJson(await contentOf(redis, beganAtMs)));
await redis.close();
await server.remove();
