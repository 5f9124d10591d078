import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { State } from "../../../src/domain/service/state.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { sha256Hex } from "../../../src/lib/crypto.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { openRedisState } from "../../../src/state/redis/state.js";
import { contentOf, fillState, fullKey, keySecret, toJson } from "../../support/full-state.js";
import { settlement } from "../../support/records.js";
import { type DumpedKey, dumpRedis, restoreRedis } from "../../support/redis/redis-dump.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { shapesOf } from "../../support/redis/stored-shapes.js";
import { silentLog } from "../../support/silent-log.js";

const folder = new URL("../../fixtures/releases/", import.meta.url);
const releases = ["030d67be"];
/** The store's time when the fixtures were written. */
const writtenAtMs = Date.UTC(2026, 10, 23, 12);
/** Time at which the tests open the fixtures: soon after they were written, so that usage has not expired. */
const openedAtMs = writtenAtMs + 60_000;
const read = (release: string, name: string) => readFile(new URL(`${release}/${name}`, folder));

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis({ aof: "always" });
});
afterAll(() => redis?.remove());
beforeEach(async () => {
  await redis.cli("FLUSHALL");
});

async function openRedisAt(atMs: number): Promise<State> {
  const shiftMs = atMs - Date.now();
  const options = { url: redis.url, tls: null, log: silentLog, clock: createSystemClock(), allowVolatile: false };
  const state = await openRedisState({ ...options, patience: 20, timeShiftMs: () => shiftMs });
  onTestFinished(() => state.close());
  // This call updates the estimated time, because every answer of the server contains its time.
  await state.health();
  return state;
}

/** Settles a request, sends its delivery and changes a key, with records of the earlier release. */
async function use(state: State): Promise<void> {
  expect(await state.keys.findByHash(sha256Hex(keySecret))).toEqual(fullKey(1));
  const before = await state.usage.used("a", { kind: "key", id: "key_1" }, month);
  await state.ledger.settle(settlement("req_new"));
  expect(await state.ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: true });
  const after = await state.usage.used("a", { kind: "key", id: "key_1" }, month);
  expect(after.requests - before.requests).toBe(1n);
  const { claims } = await state.deliveries.claim({ max: 64, leaseMs: 15_000 });
  expect(claims.length).toBe(10);
  for (const claim of claims) {
    const result = { startedAtMs: 1, latencyMs: 1, status: 200, error: null, ip: null, response: "", retryAfter: null };
    expect(await state.deliveries.finish({ claim, result, outcome: { state: "delivered" } })).not.toBeNull();
  }
  expect(await state.keys.revoke("key_1", openedAtMs)).toMatchObject({ revokedAtMs: openedAtMs });
  expect(await state.deliveries.due()).toBe(0);
}
const month = { kind: "month", startMs: Date.UTC(2026, 10, 1), endMs: Date.UTC(2026, 11, 1) } as const;

it("there are fixtures of exactly these releases", async () => {
  const found = await readdir(folder, { withFileTypes: true });
  expect(found.filter((each) => each.isDirectory()).map(({ name }) => name)).toEqual(releases);
});

describe.each(releases)("the state of release %s", (release) => {
  it("opens from an embedded file, and all its records can be used (USE-23)", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "uis-release-"));
    onTestFinished(() => rm(dataDir, { recursive: true }));
    await writeFile(databaseFile(dataDir), gunzipSync(await read(release, "uis.db.gz")), { mode: 0o600 });
    const shiftMs = openedAtMs - Date.now();
    const clock = { ...createSystemClock(), now: () => Date.now() + shiftMs };
    const state = await openEmbeddedState({ dataDir, log: silentLog, clock });
    onTestFinished(() => state.close());
    expect(toJson(await contentOf(state, writtenAtMs))).toBe(String(await read(release, "uis.db.json")));
    await use(state);
  });

  it("opens from Redis, and all its records can be used (USE-23)", async () => {
    await restoreRedis(redis.url, await dumpOf(release));
    const state = await openRedisAt(openedAtMs);
    expect(toJson(await contentOf(state, writtenAtMs))).toBe(String(await read(release, "redis.json")));
    await use(state);
  });

  it("has the keys, formats and fields that this version writes to Redis, so that both versions can run together (USE-23)", async () => {
    const state = await openRedisAt(writtenAtMs);
    await fillState(state);
    const own = shapesOf(await dumpRedis(redis.url));
    const earlier = shapesOf(await dumpOf(release));
    expect(own).toEqual(earlier);
    expect(own.get("uis:{s*}:format")).toEqual(["string 1"]);
    expect(own.get("uis:{s*}:deliveries")).toContain("hash dlv_* = [s,s,s,s,s,i,i,i,i,i,s,i,s,i,s,i,s]");
  });
});

async function dumpOf(release: string): Promise<DumpedKey[]> {
  const lines = String(await read(release, "redis.jsonl"))
    .trimEnd()
    .split("\n");
  return lines.map((line) => JSON.parse(line) as DumpedKey);
}
