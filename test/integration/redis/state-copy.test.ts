import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { State, StateOpenError } from "../../../src/domain/service/state.js";
import { copiedKinds } from "../../../src/domain/service/state-copy.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { sha256Hex } from "../../../src/lib/crypto.js";
import { openSnapshot } from "../../../src/state/embedded/copy/snapshot.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { openCopyTarget } from "../../../src/state/redis/copy/copy-target.js";
import { openRedisState } from "../../../src/state/redis/state.js";
import { listAll } from "../../suites/delivery-records.js";
import { uis } from "../../support/cli-run.js";
import { contentOf, fillState, fullKey, keySecret, masterKey } from "../../support/full-state.js";
import { settlement } from "../../support/records.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";

let redis: RedisServer;
let root: string;
/** A filled data folder, which tests copy. */
let filled: string;
let backup: string;
let dataDir: string;
/** Derived from the store's canary. */
const sourceId = "82d50ee8527fe12d3785d3512a5a6aad";

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-state-copy-"));
  redis = await startRedis({ aof: "always", acl: true, rules: "+config|get" });
  filled = join(root, "filled");
  backup = join(root, "backup.db");
  await inSource(filled, async (state) => {
    await fillState(state);
    await state.backup?.(backup);
  });
  await writeFile(join(filled, "master.key"), `${masterKey.toString("base64")}\n`, { mode: 0o600 });
});
afterAll(async () => {
  await redis?.remove();
  await rm(root, { recursive: true, force: true });
});
let folders = 0;
beforeEach(async () => {
  await redis.cli("FLUSHALL");
  folders += 1;
  dataDir = join(root, `data-${folders}`);
  await cp(filled, dataDir, { recursive: true });
});

async function inSource<T>(folder: string, use: (state: State) => Promise<T>): Promise<T> {
  const state = await openEmbeddedState({ dataDir: folder, log: silentLog });
  return await use(state).finally(() => state.close());
}

/** Opens the target like a service, or only to read it. */
async function inTarget<T>(
  use: (state: State) => Promise<T>,
  more: Pick<Parameters<typeof openRedisState>[0], "serves" | "timeShiftMs"> = {},
): Promise<T> {
  const options = { url: redis.url, tls: null, log: silentLog, clock: createSystemClock(), allowVolatile: false };
  const state = await openRedisState({ ...options, ...more, patience: 20 });
  return await use(state).finally(() => state.close());
}

/** Copies a backup of the filled state without the command line. */
async function copyBackup(): Promise<void> {
  const deps = { url: redis.url, tls: null, clock: createSystemClock(), log: silentLog };
  const target = await openCopyTarget({ ...deps, allowVolatile: false, openWithinMs: 5_000 });
  const source = openSnapshot(backup);
  expect(source.id).toBe(sourceId);
  await target.copy(source).finally(() => {
    source.close();
    return target.close();
  });
}

const copy = (...more: readonly string[]) =>
  uis(["state", "copy", "--to", redis.url, ...more], { env: { UIS_DATA_DIR: dataDir } });

describe("uis state copy", () => {
  it("copies every kind: a service on Redis has the same keys, deliveries, usage and records (USE-21)", async () => {
    const { code, stdout, stderr } = await copy("--json");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { copied } = JSON.parse(stdout) as { copied: Record<string, number> };
    expect(Object.keys(copied).sort()).toEqual([...copiedKinds].sort());
    for (const [kind, count] of Object.entries(copied)) expect({ kind, count }).not.toEqual({ kind, count: 0 });
    expect(await readdir(dataDir)).not.toContain("uis.db.copying");
    const expected = await inSource(dataDir, contentOf);
    await inTarget(async (state) => {
      expect(await contentOf(state)).toEqual(expected);
      expect(await state.keys.findByHash(sha256Hex(keySecret))).toEqual(fullKey(1));
      expect(await state.sessions.list(0)).toEqual([]);
      expect(await state.ledger.liveLeases()).toBe(0);
    });
    // A retry is due at its planned time, all other deliveries are due now.
    let shiftMs = 0;
    await inTarget(
      async (state) => {
        const claimed = async () => {
          await state.health();
          const { claims } = await state.deliveries.claim({ max: 64, leaseMs: 15_000 });
          return claims.map(({ endpointId, attemptNumber }) => `${endpointId} ${attemptNumber}`).sort();
        };
        expect(await claimed()).toEqual([...Array(5).fill("we_1 1"), ...Array(5).fill("we_2 1")]);
        const [off] = await listAll(state.deliveries, { endpointId: "we_off" });
        expect(off).toMatchObject({ state: "permanently_failed", reason: "endpoint_disabled" });
        const [retry] = await listAll(state.deliveries, { state: "awaiting_retry" });
        shiftMs = (retry?.nextAttemptAtMs ?? 0) - state.now() - 5_000;
        expect(await claimed()).not.toContain("we_2 2");
        shiftMs += 5_000;
        expect(await claimed()).toContain("we_2 2");
      },
      { timeShiftMs: () => shiftMs },
    );
  });

  it("copies changes and removals in a second run, and sets usage instead of adding it (USE-21)", async () => {
    expect((await copy()).code).toBe(0);
    await inSource(dataDir, async (state) => {
      await state.keys.revoke("key_1", 9_000);
      await state.keys.insert(fullKey(4));
      await state.endpoints.remove("a", "we_1");
      await state.upstreams.remove("gpu");
      await state.responses.delete("a", "resp_1");
      await state.ledger.settle(settlement("req_20"));
    });
    const differing = await copy("--check", "--json");
    expect(differing.code).toBe(1);
    const { equal, kinds } = JSON.parse(differing.stdout) as {
      equal: boolean;
      kinds: Record<string, number | string>[];
    };
    expect(equal).toBe(false);
    const names = kinds
      .filter(({ differing, surplus }) => Number(differing) + Number(surplus) > 0)
      .map(({ kind }) => kind);
    expect(names).toEqual(expect.arrayContaining(["api_keys", "endpoints", "upstreams", "usage_hours", "responses"]));
    expect(names).not.toContain("audit");

    expect((await copy()).code).toBe(0);
    const same = await copy("--check");
    expect(same).toMatchObject({ code: 0, stderr: "" });
    expect(same.stdout).toMatch(/^api_keys +4 +0 +0$/m);
    const expected = await inSource(dataDir, contentOf);
    await inTarget(async (state) => {
      expect(await contentOf(state)).toEqual(expected);
      expect(await state.keys.find("key_1")).toMatchObject({ revokedAtMs: 9_000 });
      expect(await state.endpoints.find("a", "we_1")).toBeNull();
    });
  });

  it("fails with another master key, and names the file with the right one (USE-21)", async () => {
    const env = { UIS_DATA_DIR: dataDir, UIS_MASTER_KEY: Buffer.alloc(32, 8).toString("base64") };
    const { code, stdout, stderr } = await uis(["state", "copy", "--to", redis.url], { env });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^uis: UIS_MASTER_KEY is not the key of this state's secrets; .*master\.key\).*\n$/);
    expect(await redis.cli("DBSIZE")).toBe("0");
  });

  it("fails for a Redis with data that it has not written, and for a copy that a service has used (USE-22)", async () => {
    const refused = async (says: string) => {
      const refusal = await copyBackup().then(String, ({ name, message, fix }: StateOpenError) => ({
        name,
        message,
        fix,
      }));
      expect(refusal).toEqual({
        name: "StateOpenError",
        message: expect.stringContaining(says),
        fix: expect.any(String),
      });
      expect(JSON.stringify(refusal)).not.toContain("p%40ss");
    };
    await redis.cli("HSET", "uis:{k}:keys", "key_9", "{}");
    await refused("has data that no copy has written (uis:{k}:keys)");
    await redis.cli("FLUSHALL");
    await redis.cli("SET", "uis:{s3}:format", "7");
    await refused("the data in this Redis has the format of another version");
    await redis.cli("FLUSHALL");

    await copyBackup();
    await inTarget(() => refused("a running service uses"), { serves: true });
    await refused("a service has used the copy in");
    await redis.cli("HSET", "uis:{k}:copy", "state", "complete", "source", "of another store");
    await refused("has a copy of another installation");
    const elsewhere = await uis(["state", "copy", "--to", "http://127.0.0.1"], { env: { UIS_DATA_DIR: dataDir } });
    expect(elsewhere).toMatchObject({ code: 2, stderr: expect.stringContaining("it is not a Redis URL") });
    const already = { UIS_DATA_DIR: dataDir, REDIS_URL: redis.url };
    const inRedis = await uis(["state", "copy", "--to", redis.url], { env: already });
    expect(inRedis).toMatchObject({ code: 2, stderr: expect.stringContaining("without REDIS_URL") });
  });

  it("stops when Redis is full; no service starts with the incomplete copy, and another run completes it (USE-22)", async () => {
    await redis.cli("CONFIG", "SET", "maxmemory", "1");
    await expect(copyBackup()).rejects.toMatchObject({ message: expect.stringContaining("is full") });
    await redis.cli("CONFIG", "SET", "maxmemory", "0");
    await redis.cli("HSET", "uis:{k}:copy", "state", "copying", "source", sourceId);
    await expect(inTarget(async () => {}, { serves: true })).rejects.toThrow(
      "the copy of a state into this Redis is not complete",
    );
    await copyBackup();
    await inTarget(async (state) => expect(await state.keys.find("key_1")).toEqual(fullKey(1)), { serves: true });
  });
});
