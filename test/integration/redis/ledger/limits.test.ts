import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { periodAt } from "../../../../src/domain/events/events.js";
import type { Admission, AdmitRequest, LimitRefusal } from "../../../../src/domain/metering/ledger.js";
import { admission, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { accountScope, keyScope, type LedgerReplica, openReplica, toNoon } from "./redis-ledger-harness.js";

describe("limits in Redis", () => {
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

  const admitAll = (count: number, changes: Partial<AdmitRequest>, name = "req"): Promise<Admission[]> =>
    Promise.all(Array.from({ length: count }, (_, i) => replica.ledger.admit(admission(`${name}_${i}`, changes))));

  it("decides requests of one call in order, and charges a rejected request on no limit (state RL-2)", async () => {
    const scopes = [keyScope({ requestsPerMinute: 3 }), accountScope({ requestsPerMinute: 10 })];
    const admissions = await admitAll(5, { scopes });
    expect(admissions.map(({ admitted }) => admitted)).toEqual([true, true, true, false, false]);
    const uses = await replica.ledger.inspect("a", scopes);
    expect(uses.map(({ requests, running }) => ({ requests, running }))).toEqual([
      { requests: 3, running: 3 },
      { requests: 3, running: 3 },
    ]);
  });

  it("gives a repeated request the same answer as the first, in the same call and later", async () => {
    const scopes = [keyScope({ requestsPerMinute: 3, tokensPerMinute: 100 })];
    const request = admission("req_1", { scopes, reserve: { tokens: 40, costNano: 0 } });
    const together = await Promise.all([replica.ledger.admit(request), replica.ledger.admit(request)]);
    expect(together[1]).toEqual(together[0]);
    await replica.ledger.admit({ ...request, requestId: "req_2" });
    expect(await replica.ledger.admit(request)).toEqual(together[0]);
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ requests: 2, tokens: 80, running: 2 }]);
  });

  it("admits a single request after exactly the stated wait, and not before (state RL-10)", async () => {
    const scopes = [keyScope({ tokensPerMinute: 100 })];
    const ask = (id: string) => replica.ledger.admit(admission(id, { scopes, reserve: { tokens: 50, costNano: 0 } }));
    await ask("req_1");
    replica.advance(7_000);
    await ask("req_2");
    const refused = await ask("req_3");
    const { retryAfterMs } = refusalOf(refused);
    expect(retryAfterMs).toBeGreaterThan(48_000);
    replica.advance((retryAfterMs ?? 0) - 1_000);
    expect(await ask("req_4")).toMatchObject({ admitted: false });
    replica.advance(1_000);
    expect(await ask("req_5")).toMatchObject({ admitted: true });
  });

  it("states no wait for a request larger than the limit, even if other limits state one (state RL-8)", async () => {
    const scopes = [accountScope({ requestsPerMinute: 1 }), keyScope({ tokensPerMinute: 10 })];
    await replica.ledger.admit(admission("req_1", { scopes }));
    const refused = await replica.ledger.admit(admission("req_2", { scopes, reserve: { tokens: 11, costNano: 0 } }));
    expect(refusalOf(refused)).toEqual({
      which: "tokens",
      owner: { kind: "key", id: "key_1" },
      limit: 10,
      used: 0,
      requested: 11,
      retryAfterMs: null,
    });
  });

  it("refunds unused reservations, and charges usage above the reservation (state RL-6)", async () => {
    const scopes = [keyScope({ tokensPerMinute: 100 })];
    await replica.ledger.admit(admission("req_1", { scopes, reserve: { tokens: 90, costNano: 0 } }));
    await replica.ledger.settle(settlement("req_1", { promptTokens: 10, completionTokens: 5 }));
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ tokens: 15, running: 0 }]);
    await replica.ledger.admit(admission("req_2", { scopes, reserve: { tokens: 1, costNano: 0 } }));
    replica.advance(66_000);
    await replica.ledger.settle(settlement("req_2", { promptTokens: 200, completionTokens: 0 }));
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ tokens: 199 }]);
    const refused = await replica.ledger.admit(admission("req_3", { scopes, reserve: { tokens: 1, costNano: 0 } }));
    expect(refused.snapshot?.tokens).toMatchObject({ limit: 100, remaining: 0 });
  });

  it("a refund does not reduce charges that were made after the window was emptied", async () => {
    const scopes = [keyScope({ tokensPerMinute: 100, requestsPerMinute: 10 })];
    await replica.ledger.admit(admission("req_1", { scopes, reserve: { tokens: 90, costNano: 0 } }));
    await replica.ledger.resetWindow("a", { kind: "key", id: "key_1" });
    await replica.ledger.admit(admission("req_2", { scopes, reserve: { tokens: 90, costNano: 0 } }));
    await replica.ledger.settle(settlement("req_1", { promptTokens: 0, completionTokens: 0 }));
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ requests: 1, tokens: 90, running: 1 }]);
  });

  it("counts running requests, except those whose lease has expired (state RL-18)", async () => {
    const scopes = [keyScope({ concurrency: 2 })];
    const [, , third] = await admitAll(3, { scopes });
    expect(refusalOf(third)).toMatchObject({ which: "concurrency", limit: 2, used: 2, retryAfterMs: 1_000 });
    await replica.ledger.settle(settlement("req_0"));
    expect(await replica.ledger.admit(admission("req_4", { scopes }))).toMatchObject({ admitted: true });
    replica.advance(59_000);
    const progress = { requestId: "req_1", account: "a", promptTokens: 1, completionTokens: 1 };
    await replica.ledger.renew([progress], 60_000);
    replica.advance(2_000);
    const [, sixth] = await admitAll(2, { scopes }, "later");
    expect(sixth).toMatchObject({ admitted: false, refusal: { used: 2 } });
  });

  it("charges a rejected request once, with one request, even above the limit (state RL-14)", async () => {
    const scopes = [keyScope({ requestsPerMinute: 1, tokensPerMinute: 100 })];
    const refused = { requestId: "req_1", account: "a", keyId: "key_1", scopes };
    await replica.ledger.chargeRefused(refused);
    await replica.ledger.chargeRefused(refused);
    await replica.ledger.chargeRefused({ ...refused, requestId: "req_2" });
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ requests: 2, tokens: 0, running: 0 }]);
  });

  it("a replica whose clock is wrong by ten minutes affects no limit, lease or period (state RL-19)", async () => {
    const replicas = await Promise.all([0, -600_000, 600_000].map((wrongByMs) => openReplica(redis.url, wrongByMs)));
    const ledgers = replicas.map(({ ledger }) => ledger);
    const scopes = [keyScope({ requestsPerMinute: 2, concurrency: 3 })];
    const admissions: Admission[] = [];
    for (const [i, ledger] of ledgers.entries()) {
      admissions.push(await ledger.admit(admission(`req_${i}`, { scopes })));
    }
    expect(admissions.map(({ admitted }) => admitted)).toEqual([true, true, false]);
    for (const ledger of ledgers) expect(await ledger.sweepLost(10, 60_000)).toEqual([]);
    for (const [i, ledger] of ledgers.entries()) await ledger.settle(settlement(`req_${i}`));
    const [seconds = ""] = (await redis.cli("TIME")).split("\n");
    const today = periodAt("day", Number(seconds) * 1_000);
    for (const { usage } of replicas) {
      expect(await usage.used("a", { kind: "account", id: "a" }, today)).toMatchObject({ requests: 3n });
    }
    for (const each of replicas) each.close();
  });

  it("changes no window at the settlement of a request that was admitted locally", async () => {
    const scopes = [keyScope({ tokensPerMinute: 100 })];
    await replica.ledger.admit(admission("req_1", { scopes, reserve: { tokens: 90, costNano: 0 } }));
    await replica.ledger.settle(settlement("req_1", { degraded: true }));
    expect(await replica.ledger.inspect("a", scopes)).toMatchObject([{ tokens: 90, running: 0 }]);
  });

  it("counts future buckets as current when the store's clock was set back", async () => {
    const scopes = [keyScope({ requestsPerMinute: 2 })];
    await admitAll(2, { scopes });
    replica.advance(-3_600_000);
    const refused = await replica.ledger.admit(admission("back_1", { scopes }));
    expect(refusalOf(refused).retryAfterMs).toBeLessThanOrEqual(65_000);
    replica.advance(65_000);
    expect(await replica.ledger.admit(admission("back_2", { scopes }))).toMatchObject({ admitted: true });
    replica.advance(3_600_000);
  });

  it("rejects a request by the sum of settled and reserved usage, exactly even above 2^53", async () => {
    const limit = 2n ** 53n + 101n;
    const budget = { id: "thr_1", metric: "cost", period: "month", limit } as const;
    const budgets = [{ ...budget, scope: { kind: "key" as const, id: "key_1" } }];
    await replica.ledger.settle(settlement("past_1", { costNano: Number.MAX_SAFE_INTEGER }));
    await replica.ledger.settle(settlement("past_2", { costNano: 2 }));
    const ask = (id: string, costNano: number) =>
      replica.ledger.admit(admission(id, { budgets, reserve: { tokens: 0, costNano } }));
    expect(await ask("req_1", 60)).toMatchObject({ admitted: true });
    expect(await ask("req_2", 41)).toMatchObject({
      admitted: false,
      refusal: { which: "budget", thresholdId: "thr_1", limit, used: 2n ** 53n + 61n, requested: 41n },
    });
    expect(await ask("req_3", 40)).toMatchObject({ admitted: true });
    await replica.ledger.settle(settlement("req_1", { costNano: 0 }));
    expect(await ask("req_4", 60)).toMatchObject({ admitted: true });
  });
});

function refusalOf(admission: Admission | undefined): LimitRefusal {
  if (admission === undefined || admission.admitted) throw new Error("the request was admitted");
  if (admission.refusal.which === "budget") throw new Error("a budget refused the request");
  return admission.refusal;
}
