import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { RedisConnection } from "../../../../src/state/redis/connection/connection.js";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { createStoreTime, ScriptRunner } from "../../../../src/state/redis/connection/scripts.js";
import { ledgerScripts } from "../../../../src/state/redis/ledger/batches.js";
import { RedisLedger } from "../../../../src/state/redis/ledger/ledger.js";
import { eventually } from "../../../support/eventually.js";
import { admission, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { silentLog } from "../../../support/silent-log.js";
import { accountScope } from "./redis-ledger-harness.js";

const shard = keySpace.shardOf("a");
const leaseMs = 60_000;

describe("admissions that a frozen Redis processes too late", () => {
  let redis: RedisServer;
  let connection: RedisConnection;
  let ledger: RedisLedger;
  let shiftMs = 0;
  beforeAll(async () => {
    redis = await startRedis({ aof: "no" });
    const clock = createSystemClock();
    connection = new RedisConnection({ url: redis.url, tls: null, clock, log: silentLog });
    await connection.ready(5_000);
    await connection.keepLoaded(Object.values(ledgerScripts));
    ledger = new RedisLedger({
      runner: new ScriptRunner(
        connection,
        createStoreTime(clock, () => shiftMs),
      ),
    });
    await eventually(async () => (await ledger.liveLeases().catch(() => null)) === 0, "Redis answers");
  });
  afterAll(async () => {
    await connection?.close();
    await redis?.remove();
  });

  const owner = { kind: "account", id: "a" } as const;
  const request = (id: string) =>
    admission(id, {
      scopes: [accountScope({ requestsPerMinute: 10, concurrency: 10 })],
      budgets: [{ id: "thr_1", metric: "tokens", period: "day", limit: 1_000n, scope: owner }],
      reserve: { tokens: 10, costNano: 10 },
    });
  const noneLives = async () => (await redis.cli("HLEN", shard.live)) === "0";

  it("are reverted, so that no sweep counts requests that were never executed (USE-13)", async () => {
    redis.freeze();
    const late = [request("req_1"), request("req_2")];
    const answers = await Promise.allSettled(late.map((each) => ledger.admit(each)));
    redis.thaw();
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await eventually(async () => (await redis.cli("EXISTS", shard.window("a", owner))) === "1", "the admission");
    await eventually(noneLives, "the admissions are reverted");
    expect(await redis.cli("EXISTS", shard.running("a", owner))).toBe("0");
    expect(await redis.cli("HMGET", shard.reserved("a", owner), "r", "t", "n")).toBe("0\n0\n0");
    shiftMs += leaseMs + 1;
    expect(await ledger.sweepLost(10, leaseMs)).toEqual([]);
  });

  it("count once if their requests run without the store and are settled", async () => {
    redis.freeze();
    await expect(ledger.admit(request("req_3"))).rejects.toMatchObject({ code: "storage_unavailable" });
    redis.thaw();
    await eventually(noneLives, "the admission is reverted");
    expect(await ledger.settle(settlement("req_3", { degraded: true }))).toMatchObject({ duplicate: false });
    expect(await ledger.settle(settlement("req_3", { degraded: true }))).toMatchObject({ duplicate: true });
  });
});
