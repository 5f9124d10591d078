import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { State } from "../../../src/domain/service/state.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { openRedisState } from "../../../src/state/redis/state.js";
import { settleLost, soakLedger } from "../../support/ledger-soak.js";
import { needsInstalled } from "../../support/missing-program.js";
import { MovableClock } from "../../support/movable-clock.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";

const requests = 100_000;
const leaseS = 61;
const windowS = 71;
const threeYearsS = 3 * 366 * 86_400;
/**
 * Names of keys without an expiry: the format of a shard, the accounts by their last usage (removed when another account is
 * added), and the keys that `purge` empties.
 */
const lasting = /^uis:(\{s\d+\}:(format|accounts)|\{k\}:(audit|sessions|session_hashes))$/;

let clock: MovableClock;
let redis: RedisServer;
let state: State;
beforeEach(async () => {
  needsInstalled("gcc");
  clock = new MovableClock();
  redis = await startRedis({ aof: "no", env: clock.env });
  const deps = { url: redis.url, tls: null, log: silentLog, clock: createSystemClock(), patience: 20 };
  state = await openRedisState({ ...deps, allowVolatile: true });
});
afterEach(async () => {
  await state?.close();
  await redis?.remove();
  clock?.remove();
});

/** Advances the store's time, and waits until the driver has received it. */
async function advanceTo(seconds: number): Promise<void> {
  clock.set(seconds);
  await state.health();
}

async function keysLike(pattern: string): Promise<string[]> {
  return (await redis.cli("--scan", "--pattern", pattern)).split("\n").filter((key) => key !== "");
}

/** Lists the keys without an expiry, in one script because there are many keys. */
async function keysWithoutExpiry(): Promise<string[]> {
  const script =
    "local found = {} for _, key in ipairs(redis.call('KEYS', '*')) do if redis.call('PTTL', key) == -1 then found[#found + 1] = key end end return found";
  return (await redis.cli("EVAL", script, "0")).split("\n").filter((key) => key !== "");
}

const sizeOf = async (key: string) => Number(await redis.cli("MEMORY", "USAGE", key, "SAMPLES", "0"));

/** Size in bytes of the largest of the matching keys. */
async function largest(pattern: string): Promise<number> {
  const sizes = await Promise.all((await keysLike(pattern)).slice(0, 50).map(sizeOf));
  return Math.max(...sizes);
}

describe("Redis after many requests", { timeout: 600_000 }, () => {
  it("contains only keys that expire or are purged, and keys of limits and usage rows are small (state RL-21, USE-15)", async () => {
    const leftRunning = await soakLedger(state, 0, requests);
    expect(leftRunning).toBeGreaterThan(requests / 50);
    expect(await largest("*:w:*")).toBeLessThan(1_500);
    const [day = ""] = await keysLike("*:d:account-1:*");
    const fields = (await redis.cli("HKEYS", day)).split("\n");
    const rows = new Set(fields.map((field) => field.replace(/\|[^|]*$/, "")));
    expect(rows.size).toBeGreaterThanOrEqual(5);
    expect((await sizeOf(day)) / rows.size).toBeLessThan(300);

    await advanceTo(leaseS);
    expect(await settleLost(state)).toBe(leftRunning);
    expect(await keysLike("*:live")).toEqual([]);
    expect(await keysLike("*:leases")).toEqual([]);
    expect((await keysWithoutExpiry()).filter((key) => !lasting.test(key))).toEqual([]);
    await advanceTo(leaseS + windowS);
    expect(await keysLike("*:w:*")).toEqual([]);

    await advanceTo(threeYearsS);
    while ((await state.purge(500)) > 0) {}
    const left = (await keysLike("uis:*")).filter((key) => !key.endsWith(":replicas"));
    expect(left.filter((key) => !/^uis:\{s\d+\}:(format|accounts)$/.test(key))).toEqual([]);
    expect(await state.usage.accounts()).toEqual([]);
  });
});
