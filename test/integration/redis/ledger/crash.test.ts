import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { periodAt, type Threshold } from "../../../../src/domain/events/events.js";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { admission, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { rounds } from "../../../support/tier.js";
import { deliveriesOf, endpointText, openReplica } from "./redis-ledger-harness.js";

const shard = keySpace.shardOf("a");
const threshold: Threshold = {
  id: "thr_1",
  account: "a",
  apiKeyId: null,
  metric: "requests",
  period: "month",
  limit: 100n,
  percents: [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
  action: "notify",
  createdAtMs: 0,
  updatedAtMs: 0,
};

describe("a Redis server that is killed", () => {
  let redis: RedisServer;
  beforeEach(async () => {
    redis = await startRedis({ aof: "always" });
  });
  afterEach(() => redis?.remove());

  it("stores each settlement completely or not at all, and loses none that it acknowledged (USE-1, USE-2)", async () => {
    await redis.cli(
      "HSET",
      shard.endpoints("a"),
      "we_1",
      endpointText("enabled", "request.completed,usage.threshold_reached"),
    );
    const acknowledged = new Set<string>();
    for (let round = 0; round < rounds(20); round++) {
      const replica = await openReplica(redis.url);
      const runOne = async (id: string) => {
        const event = { id: `evt_${id}`, type: "request.completed", body: "{}" } as const;
        await replica.ledger.admit(admission(id));
        await replica.ledger.settle(settlement(id, { event, thresholds: [threshold] }));
        acknowledged.add(id);
      };
      const ids = Array.from({ length: 40 }, (_, i) => `req_${round}_${i}`);
      const settling = Promise.allSettled(ids.map(runOne));
      while (acknowledged.size < round * 40 + 1) await Promise.race([settling, new Promise(setImmediate)]);
      await redis.kill();
      replica.close();
      await settling;
      await redis.restart();
      // Unacknowledged settlements are repeated, as the spool would do.
      const again = await openReplica(redis.url);
      for (const id of ids) {
        const event = { id: `evt_${id}`, type: "request.completed", body: "{}" } as const;
        const settled = await again.ledger.settle(settlement(id, { event, thresholds: [threshold] }));
        if (acknowledged.has(id)) expect(settled.duplicate).toBe(true);
        acknowledged.add(id);
      }
      again.close();
    }

    const replica = await openReplica(redis.url);
    const month = periodAt("month", replica.time.now());
    const used = await replica.usage.used("a", { kind: "account", id: "a" }, month);
    expect(used.requests).toBe(BigInt(acknowledged.size));
    const deliveries = await deliveriesOf(replica.deliveries);
    const thresholdEvents = deliveries.filter(({ eventType }) => eventType === "usage.threshold_reached");
    expect(deliveries.length - thresholdEvents.length).toBe(acknowledged.size);
    expect(thresholdEvents.map(({ body }) => JSON.parse(body).data.used)).toEqual([
      10, 20, 30, 40, 50, 60, 70, 80, 90, 100,
    ]);
    replica.close();
  });
});
