import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { periodAt, type Threshold } from "../../../../src/domain/events/events.js";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { fanOutAll } from "../../../suites/delivery-records.js";
import { admission, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { deliveriesOf, endpointText, type LedgerReplica, openReplica, toNoon } from "./redis-ledger-harness.js";

const dayMs = 86_400_000;
const shard = keySpace.shardOf("a");

describe("settlements in Redis", () => {
  let redis: RedisServer;
  let replica: LedgerReplica;
  let other: LedgerReplica;
  beforeAll(async () => {
    redis = await startRedis({ aof: "no" });
    [replica, other] = await Promise.all([openReplica(redis.url), openReplica(redis.url)]);
    toNoon(replica);
    toNoon(other);
  });
  beforeEach(() => redis.cli("FLUSHALL"));
  afterAll(async () => {
    replica?.close();
    other?.close();
    await redis?.remove();
  });

  const usedToday = (kind: "account" | "key", id: string) =>
    replica.usage.used("a", { kind, id }, periodAt("day", replica.time.now()));
  const rows = (width: "hour" | "day") =>
    replica.usage.rows({ account: "a", width, fromMs: 0, toMs: replica.time.now() + 1 });
  const addEndpoint = (id: string, fields: string) => redis.cli("HSET", shard.endpoints("a"), id, fields);

  it("counts a request once, even if several processes or one call settle it several times (USE-1)", async () => {
    await replica.ledger.admit(admission("req_1"));
    const settled = await Promise.all(
      [replica, other, replica].map(({ ledger }) => ledger.settle(settlement("req_1"))),
    );
    expect(settled.map(({ duplicate }) => duplicate).toSorted()).toEqual([false, true, true]);
    expect(await replica.ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: true });
    expect(await usedToday("account", "a")).toMatchObject({ requests: 1n, promptTokens: 10n, completionTokens: 5n });
  });

  it("adds sums above 2^53 exactly (USE-9)", async () => {
    await Promise.all([1, 2, 3].map((i) => replica.ledger.settle(settlement(`req_${i}`, { costNano: 2 ** 53 - 1 }))));
    expect(await usedToday("key", "key_1")).toMatchObject({ requests: 3n, costNano: 3n * (2n ** 53n - 1n) });
  });

  it("stores hours and days by key and model, and lists their accounts", async () => {
    await Promise.all([
      replica.ledger.settle(settlement("req_1", { model: "z" })),
      replica.ledger.settle(settlement("req_2", { keyId: null })),
      replica.ledger.settle(settlement("req_3", { cachedTokens: 4, costNano: 7 })),
      replica.ledger.settle(settlement("req_4")),
      replica.ledger.settle(settlement("req_5", { account: "b" })),
    ]);
    const expected = [
      { keyId: null, model: "m", requests: 1n, cachedTokens: 0n },
      { keyId: "key_1", model: "m", requests: 2n, promptTokens: 20n, cachedTokens: 4n, costNano: 7n },
      { keyId: "key_1", model: "z", requests: 1n },
    ];
    expect(await rows("hour")).toMatchObject(expected);
    expect(await rows("day")).toMatchObject(expected);
    expect(await replica.usage.accounts()).toEqual(["a", "b"]);
  });

  it("writes the sums over all operations that version 0.1 reads, and reads the sums that version 0.1 writes (USE-10)", async () => {
    const { startMs } = periodAt("day", replica.time.now());
    const key = shard.usageRows("a", "day", startMs);
    await replica.ledger.settle(settlement("req_1"));
    await replica.ledger.settle(settlement("req_2", { operation: "create_completion" }));
    expect(await redis.cli("HMGET", key, "key_1|m|r", "key_1|m|p", "key_1|m|c")).toBe("2\n20\n10");
    // A settlement of version 0.1.
    await redis.cli("HINCRBY", key, "key_1|m|r", "1");
    await redis.cli("HINCRBY", key, "key_1|m|p", "7");
    const row = { account: "a", startMs, keyId: "key_1", model: "m", cachedTokens: 0n, costNano: 0n };
    expect(await rows("day")).toEqual([
      { ...row, operation: null, requests: 1n, promptTokens: 7n, completionTokens: 0n },
      { ...row, operation: "chat", requests: 1n, promptTokens: 10n, completionTokens: 5n },
      { ...row, operation: "completions", requests: 1n, promptTokens: 10n, completionTokens: 5n },
    ]);
  });

  it("counts a request in the period of its end, which is given for late settlements and else the store's time (USE-6)", async () => {
    const nowMs = replica.time.now();
    await replica.ledger.admit(admission("req_1"));
    await replica.ledger.settle(settlement("req_late", { endedAtMs: nowMs - dayMs }));
    replica.advance(dayMs);
    await replica.ledger.settle(settlement("req_1"));
    replica.advance(-dayMs);
    const days = await replica.usage.rows({ account: "a", width: "day", fromMs: 0, toMs: nowMs + 2 * dayMs });
    const today = periodAt("day", nowMs).startMs;
    expect(days.map(({ startMs }) => startMs)).toEqual([today - dayMs, today + dayMs]);
  });

  it("uses the hour of the server's clock if the estimate is wrong", async () => {
    replica.time.observe(replica.time.now() - 2 * dayMs, replica.time.monotonic(), replica.time.monotonic());
    await replica.ledger.settle(settlement("req_1"));
    expect(await usedToday("account", "a")).toMatchObject({ requests: 1n });
  });

  it("fires each value of a threshold once, with the exact sum, for subscribed endpoints (USE-3)", async () => {
    await addEndpoint("we_1", endpointText("enabled", "request.completed,usage.threshold_reached"));
    await addEndpoint("we_2", endpointText("disabled", "usage.threshold_reached"));
    await addEndpoint("we_3", endpointText("enabled", "request.failed"));
    const thresholds = [threshold({ limit: 150n, percents: [50, 100] })];
    const ledgers = [replica.ledger, other.ledger];
    const settled = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ledgers[i % 2]?.settle(settlement(`req_${i}`, { thresholds }))),
    );
    expect(settled.flatMap((each) => each?.crossed ?? [])).toEqual(["thr_1", "thr_1"]);
    const deliveries = await deliveriesOf(replica.deliveries);
    expect(deliveries.map(({ endpointId }) => endpointId)).toEqual(["we_1", "we_1"]);
    expect(deliveries.map(({ body }) => JSON.parse(body).data)).toMatchObject([
      { percent: 50, used: 75 },
      { percent: 100, used: 150 },
    ]);
    expect(await replica.deliveries.due()).toBe(2);
  });

  it("fires every value that one settlement reaches, lowest first, and a changed value again (USE-5)", async () => {
    const thresholds = [threshold({ limit: 10n, percents: [10, 50, 100] })];
    expect(await replica.ledger.settle(settlement("req_1", { thresholds }))).toEqual({
      duplicate: false,
      crossed: ["thr_1", "thr_1", "thr_1"],
    });
    expect(await replica.ledger.settle(settlement("req_2", { thresholds }))).toMatchObject({ crossed: [] });
    const edited = [threshold({ limit: 20n, percents: [100] })];
    expect(await replica.ledger.settle(settlement("req_3", { thresholds: edited }))).toMatchObject({
      crossed: ["thr_1"],
    });
  });

  it("compares and reports sums beyond 2^53 digit by digit", async () => {
    await addEndpoint("we_1", endpointText("enabled", "usage.threshold_reached"));
    const thresholds = [threshold({ metric: "cost", limit: 2n ** 53n + 1n, percents: [100] })];
    await replica.ledger.settle(settlement("req_1", { thresholds, costNano: 2 ** 53 - 1 }));
    expect(await replica.ledger.settle(settlement("req_2", { thresholds, costNano: 1 }))).toMatchObject({
      crossed: [],
    });
    expect(await replica.ledger.settle(settlement("req_3", { thresholds, costNano: 2 }))).toMatchObject({
      crossed: ["thr_1"],
    });
    const [delivery] = await deliveriesOf(replica.deliveries);
    expect(delivery?.body).toContain('"used":9007199254740994}}');
  });

  it("settles each of many requests whose deliveries exceed the maximum of one script call (WH-52)", async () => {
    const endpoints = Array.from({ length: 30 }, (_, i) => `we_${i}`);
    for (const id of endpoints) await addEndpoint(id, endpointText("enabled", "request.completed"));
    const event = (i: number) => ({ id: `evt_${i}`, type: "request.completed" as const, body: `{"number":${i}}` });
    const settled = await Promise.all(
      Array.from({ length: 64 }, (_, i) => replica.ledger.settle(settlement(`req_${i}`, { event: event(i) }))),
    );
    expect(settled.filter(({ duplicate }) => duplicate)).toEqual([]);
    expect(await usedToday("account", "a")).toMatchObject({ requests: 64n });
    await fanOutAll(replica.deliveries);
    expect(await replica.deliveries.due()).toBe(64 * endpoints.length);
  });

  it("creates one delivery of an event for each subscribed endpoint, with the same bytes", async () => {
    await addEndpoint("we_1", endpointText("enabled", "request.completed"));
    await addEndpoint("we_2", endpointText("enabled", "request.completed,request.failed"));
    const event = { id: "evt_1", type: "request.completed", body: '{"id":"evt_1","text":"π/\\u001f"}' } as const;
    await replica.ledger.settle(settlement("req_1", { event }));
    await replica.ledger.settle(settlement("req_2", { event }));
    const deliveries = await deliveriesOf(replica.deliveries);
    expect(deliveries.map(({ endpointId, body }) => [endpointId, body])).toEqual([
      ["we_1", event.body],
      ["we_2", event.body],
    ]);
  });

  it("counts a settlement without a known admission", async () => {
    expect(await replica.ledger.settle(settlement("req_1", { degraded: true }))).toMatchObject({ duplicate: false });
    expect(await usedToday("key", "key_1")).toMatchObject({ requests: 1n });
  });

  it("returns a lost request with its last progress to one of two sweeps, and again if that process dies", async () => {
    for (let i = 0; i < 40; i++) await replica.ledger.admit(admission(`req_${i}`));
    await replica.ledger.renew([{ requestId: "req_7", account: "a", promptTokens: 3, completionTokens: 4 }], 60_000);
    for (const each of [replica, other]) each.advance(61_000);
    const swept = (await Promise.all([replica, other].map(({ ledger }) => ledger.sweepLost(100, 60_000)))).flat();
    expect(new Set(swept.map(({ requestId }) => requestId)).size).toBe(40);
    expect(swept).toHaveLength(40);
    expect(swept.find(({ requestId }) => requestId === "req_7")).toMatchObject({
      account: "a",
      keyId: "key_1",
      model: "m",
      operation: "create_chat_completion",
      promptTokens: 3,
      completionTokens: 4,
    });
    for (const each of [replica, other]) each.advance(61_000);
    expect(await other.ledger.sweepLost(7, 60_000)).toHaveLength(7);
    for (const each of [replica, other]) each.advance(-122_000);
  });
});

function threshold(changes: Partial<Threshold>): Threshold {
  return {
    id: "thr_1",
    account: "a",
    apiKeyId: null,
    metric: "tokens",
    period: "day",
    limit: 100n,
    percents: [100],
    action: "notify",
    createdAtMs: 0,
    updatedAtMs: 0,
    ...changes,
  };
}
