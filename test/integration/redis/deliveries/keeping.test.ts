import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { requestCompleted } from "../../../../src/domain/events/events.js";
import { deliveredKeptMs, failedKeptMs } from "../../../../src/domain/webhooks/delivery-queue.js";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { DeliveryDesk, failedForGood, leaseMs, retryIn, succeeded } from "../../../suites/delivery-records.js";
import { endpoint, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { rounds } from "../../../support/tier.js";
import { attempted, openStateReplica, type Replica } from "./delivery-worker.js";

const shard = keySpace.shardOf("a");
const keptBytesMax = 1_100;

describe("deliveries stored in Redis", () => {
  let redis: RedisServer;
  let replica: Replica;
  let desk: DeliveryDesk;
  beforeAll(async () => {
    redis = await startRedis({ aof: "no" });
  });
  beforeEach(async () => {
    await redis.cli("FLUSHALL");
    replica = await openStateReplica(redis.url);
    desk = new DeliveryDesk({ ...replica, leewayMs: 5_000 });
    await desk.insert(endpoint("we_a", { maxInFlight: 64 }));
  });
  afterEach(() => replica?.close());
  afterAll(() => redis?.remove());

  /** Keys that do not expire, except those of the ledger. */
  const lasting = async (): Promise<string[]> => {
    const keys = (await redis.cli("--scan", "--pattern", `uis:{s${shard.index}}:*`)).split("\n");
    const lives = await Promise.all(keys.map((key) => redis.cli("PTTL", key)));
    const own: string[] = [shard.format, shard.accounts];
    return keys.filter((key, i) => Number(lives[i]) < 0 && !own.includes(key)).toSorted();
  };

  it("no keys of old deliveries and removed endpoints are left, whatever their result was (WH-50)", async () => {
    for (const outcome of [succeeded, failedForGood, retryIn(30_000)]) {
      await desk.emitMany(3, "we_a");
      for (const claim of await desk.claim()) await desk.finish(claim, outcome);
    }
    await desk.emitMany(3, "we_a");
    await desk.claim(1);
    await desk.disable("we_a");
    await desk.drain();
    await replica.advance(leaseMs);
    await desk.drain();
    expect(await lasting()).toEqual(
      [
        ...["bodies", "deliveries", "kept:delivered", "kept:failed"].map((name) => keyOf(name)),
        ...["delivered", "failed"].flatMap((name) => listsOf(name)),
        ...[shard.endpoints("a"), shard.endpointHealth("a")],
      ].toSorted(),
    );
    await replica.advance(2 * failedKeptMs);
    await desk.purgeAll();
    expect(await lasting()).toEqual([shard.endpoints("a"), shard.endpointHealth("a")].toSorted());
    await desk.state.endpoints.remove("a", "we_a");
    expect(await lasting()).toEqual([]);
  });

  it("a purge of many deliveries continues until it has removed its maximum (WH-50)", async () => {
    const count = 500;
    await desk.emitMany(count, "we_a");
    for (let left = count; left > 0; ) {
      const claims = await desk.claim();
      await Promise.all(claims.map((claim) => desk.finish(claim, succeeded)));
      left -= claims.length;
    }
    await replica.advance(deliveredKeptMs);
    expect(await replica.state.purge(450)).toBe(450);
    expect(Number(await redis.cli("HLEN", shard.bodies))).toBe(count - 450);
  });

  it("a delivered delivery with its payload takes about a kilobyte", async () => {
    const count = rounds(20_000);
    const before = await bytes();
    for (let made = 0; made < count; made += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, i) => settle(made + i)));
      const claims = await desk.claim();
      await Promise.all(
        claims.map((claim) => replica.state.deliveries.finish({ claim, result: attempted, outcome: succeeded })),
      );
    }
    const each = ((await bytes()) - before) / count;
    expect(Number(await redis.cli("ZCARD", listsOf("delivered")[0] ?? ""))).toBe(count);
    expect(each).toBeGreaterThan(300);
    expect(each).toBeLessThan(keptBytesMax);
  });

  const keyOf = (name: string) => `uis:{s${shard.index}}:${name}`;

  /** Keys of the lists of the endpoint's deliveries for completed requests. */
  const listsOf = (name: string) => [keyOf(`${name}:request.completed`), keyOf(`${name}:request.completed:we_a`)];

  const settle = (number: number) => {
    const requestId = `req_${String(number).padStart(32, "0")}`;
    const facts = { requestId, model: "llama-3.2-3b", promptTokens: 1_000, completionTokens: 200, latencyMs: 1_500 };
    const made = requestCompleted(facts, Date.UTC(2026, 10, 21));
    return replica.state.ledger.settle(settlement(requestId, { event: made }));
  };

  /** Memory of the keys of deliveries. */
  const bytes = async (): Promise<number> => {
    const keys = ["bodies", "deliveries", "kept:delivered", "claims"].map((name) => keyOf(name));
    keys.push(...listsOf("delivered"), ...listsOf("open"));
    const sizes = await Promise.all(keys.map((key) => redis.cli("MEMORY", "USAGE", key, "SAMPLES", "0")));
    return sizes.reduce((sum, size) => sum + Number(size || 0), 0);
  };
});
