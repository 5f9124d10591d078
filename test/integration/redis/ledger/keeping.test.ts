import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { admission, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { rounds } from "../../../support/tier.js";
import {
  accountScope,
  deliveriesOf,
  keyScope,
  type LedgerReplica,
  openReplica,
  toNoon,
} from "./redis-ledger-harness.js";

const shard = keySpace.shardOf("a");
const minuteMs = 60_000;
const dayMs = 86_400_000;

describe("ledger data in Redis", () => {
  let redis: RedisServer;
  let replica: LedgerReplica;
  beforeAll(async () => {
    redis = await startRedis({ aof: "no" });
    replica = await openReplica(redis.url);
    toNoon(replica);
  });
  beforeEach(() => redis.cli("FLUSHALL"));
  afterAll(async () => {
    replica?.close();
    await redis?.remove();
  });

  const keysLike = async (part: string): Promise<string[]> =>
    (await redis.cli("--scan", "--pattern", part)).split("\n").filter((key) => key !== "");
  const lifeMs = async (key: string) => Number(await redis.cli("PTTL", key));
  /** Lists the keys in one script, because there are thousands of others. */
  const lastingKeys = async () => {
    const keys = "redis.call('KEYS', 'uis:*')";
    const script = `local all = {} for _, k in ipairs(${keys}) do if redis.call('PTTL', k) < 0 then all[#all + 1] = k end end return all`;
    return (await redis.cli("EVAL", script, "0")).split("\n").filter((key) => key !== "");
  };

  it("a window takes less than 1.5 KB and expires 70 s after its last charge (state RL-21)", async () => {
    const scopes = [keyScope({ requestsPerMinute: 1e9, tokensPerMinute: 1e12 })];
    for (let i = 0; i < 13; i++) {
      await replica.ledger.admit(
        admission(`req_${i}`, { scopes, reserve: { tokens: 7_000_000_000 + i, costNano: 0 } }),
      );
      replica.advance(5_000);
    }
    const [window = ""] = await keysLike("*:w:*");
    expect(Number(await redis.cli("MEMORY", "USAGE", window))).toBeLessThan(1_500);
    expect(await lifeMs(window)).toBeGreaterThan(50_000);
    expect(await lifeMs(window)).toBeLessThanOrEqual(70_000);
  });

  it("settled requests leave only keys that expire, whatever their keys and limits (state RL-21)", async () => {
    const count = rounds(1_000);
    for (let i = 0; i < count; i++) {
      const id = `key_${i}`;
      const scopes = [keyScope({ requestsPerMinute: 5, concurrency: 5 }, id), accountScope({ tokensPerMinute: 1e9 })];
      const scope = { kind: "key" as const, id };
      const budgets = [{ id: "thr_1", metric: "tokens" as const, period: "day" as const, limit: 1_000n, scope }];
      const changes = { keyId: id, scopes, budgets, reserve: { tokens: 10, costNano: 10 } };
      await replica.ledger.admit(admission(`req_${i}`, changes));
      await replica.ledger.settle(settlement(`req_${i}`, { keyId: id }));
      await replica.ledger.chargeRefused({ requestId: `refused_${i}`, account: "a", keyId: id, scopes });
    }
    // Only the format number of the shard does not expire, and the set with one entry per account, which is removed with
    // its usage.
    expect((await lastingKeys()).toSorted()).toEqual([shard.accounts, shard.format]);
    expect(await keysLike("*:c:*")).toEqual([]);
  });

  it("keeps hourly usage for 90 days, daily usage for 2 years, sums for 60 days after their period and markers for 2 hours", async () => {
    await replica.ledger.settle(settlement("req_1"));
    const days = async (part: string) =>
      Promise.all((await keysLike(part)).toSorted().map(async (key) => Math.round((await lifeMs(key)) / dayMs)));
    // The store's time was advanced by at most two days.
    expect(await days("*:h:*")).toEqual([expect.closeTo(91, -0.5)]);
    expect(await days("*:d:*")).toEqual([expect.closeTo(732, -0.5)]);
    const sums = await days("*:p:*");
    expect(sums).toHaveLength(4);
    for (const each of sums) expect(each).toBeGreaterThanOrEqual(60);
    for (const each of sums) expect(each).toBeLessThanOrEqual(93);
    expect(Math.round((await lifeMs(shard.ended("req_1"))) / minuteMs)).toBe(120);
  });

  it("removes accounts whose last usage is 2 years old when another account is added", async () => {
    const endedAtMs = replica.time.now() - 732 * dayMs;
    await redis.cli("ZADD", shard.accounts, String(endedAtMs), "old");
    expect(await replica.usage.accounts()).toEqual([]);
    await replica.ledger.settle(settlement("req_1"));
    expect(await redis.cli("ZRANGE", shard.accounts, "0", "-1")).toBe("a");
  });

  it("continues when the server has lost its scripts", async () => {
    await replica.ledger.admit(admission("req_1"));
    await redis.cli("SCRIPT", "FLUSH");
    expect(await replica.ledger.admit(admission("req_2"))).toMatchObject({ admitted: true });
    expect(await replica.ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
    expect(await replica.ledger.liveLeases()).toBe(1);
  });

  it("uses data of the previous format, and rejects data of any other format without changing it", async () => {
    await replica.ledger.admit(admission("req_1"));
    const own = Number(await redis.cli("GET", shard.format));
    await redis.cli("SET", shard.format, String(own - 1));
    expect(await replica.ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
    expect(Number(await redis.cli("GET", shard.format))).toBe(own - 1);

    await redis.cli("SET", shard.format, String(own + 1));
    const verbs = [
      () => replica.ledger.admit(admission("req_2")),
      () => replica.ledger.settle(settlement("req_2")),
      () =>
        replica.ledger.renew([{ requestId: "req_1", account: "a", promptTokens: 0, completionTokens: 0 }], minuteMs),
      () => replica.ledger.sweepLost(1, minuteMs),
      () => replica.ledger.inspect("a", [accountScope({ requestsPerMinute: 1 })]),
      () => replica.ledger.resetWindow("a", { kind: "account", id: "a" }),
      () => replica.usage.accounts(),
      () => deliveriesOf(replica.deliveries),
      () => replica.deliveries.claim({ max: 1, leaseMs: minuteMs }),
      () => replica.deliveries.find("dlv_1"),
    ];
    for (const verb of verbs) await expect(verb()).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(await keysLike("*req_2*")).toEqual([]);
  });

  it("changes nothing for a settlement that a full server rejects, so that it can be repeated", async () => {
    await replica.ledger.admit(admission("req_1"));
    await redis.cli("CONFIG", "SET", "maxmemory", "1mb");
    await expect(replica.ledger.settle(settlement("req_1"))).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(replica.ledger.admit(admission("req_2"))).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(await replica.ledger.liveLeases()).toBe(1);
    await redis.cli("CONFIG", "SET", "maxmemory", "0");
    expect(await replica.ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
    expect(await replica.ledger.liveLeases()).toBe(0);
  });
});
