import { beforeEach, describe, expect, it } from "vitest";
import { type Period, periodAt, type UsageSums } from "../../../../src/domain/events/events.js";
import { BudgetSums } from "../../../../src/state/embedded/ledger.js";
import { budget as anyBudget, settlement as anySettlement } from "../../../support/records.js";

const noonMs = Date.UTC(2026, 0, 31, 12);
const dayMs = 86_400_000;
const budget = anyBudget({ id: "thr_1", period: "day", limit: 100n });
const settlement = anySettlement("req_1");
const day = periodAt("day", noonMs);

/** Sum after the given number of requests of 15 tokens. */
function sumsAfter(requests: bigint): UsageSums {
  return {
    requests,
    promptTokens: requests * 10n,
    completionTokens: requests * 5n,
    cachedTokens: 0n,
    costNano: 0n,
  };
}

let reads: Period[];
let kept: bigint;
let sums: BudgetSums;
beforeEach(() => {
  reads = [];
  kept = 0n;
  sums = new BudgetSums(async (_account, _scope, period) => {
    reads.push(period);
    return sumsAfter(kept);
  });
});

describe("BudgetSums", () => {
  it("reads a sum from the store once, and again when its period has ended (USE-7)", async () => {
    kept = 2n;
    await sums.prepare("a", [budget, { ...budget, metric: "requests" }], noonMs);
    expect(sums.prepare("a", [budget], noonMs)).toBeNull();
    expect(sums.usedOf(budget)).toBe(30n);
    expect(sums.usedOf({ ...budget, metric: "requests" })).toBe(2n);
    kept = 0n;
    await sums.prepare("a", [budget], noonMs + dayMs);
    expect(sums.usedOf(budget)).toBe(0n);
    expect(reads.map(({ startMs }) => startMs)).toEqual([day.startMs, day.endMs]);
  });

  it("counts a settlement once and from its start, even while the sum is still being read (USE-7)", async () => {
    const loading = sums.prepare("a", [budget], noonMs);
    const touched = sums.begin(settlement, noonMs);
    expect(sums.usedOf(budget)).toBe(15n);
    kept = 1n;
    sums.finish(touched, settlement, [{ kind: "account", id: "a", period: day, sums: sumsAfter(1n) }]);
    await loading;
    expect(sums.usedOf(budget)).toBe(15n);
  });

  it("no longer counts a settlement that added nothing to the store", async () => {
    await sums.prepare("a", [budget], noonMs);
    sums.finish(sums.begin(settlement, noonMs), settlement, []);
    expect(sums.usedOf(budget)).toBe(0n);
  });

  it("does not change the new period for a settlement of the old one", async () => {
    await sums.prepare("a", [budget], noonMs + dayMs);
    const touched = sums.begin(settlement, noonMs);
    expect(sums.usedOf(budget)).toBe(0n);
    sums.finish(touched, settlement, [{ kind: "account", id: "a", period: day, sums: sumsAfter(1n) }]);
    expect(sums.usedOf(budget)).toBe(0n);
  });

  it("reads a sum again after a failed read", async () => {
    let isDown = true;
    const flaky = new BudgetSums(async () => {
      if (isDown) throw new Error("down");
      return sumsAfter(1n);
    });
    await expect(flaky.prepare("a", [budget], noonMs)).rejects.toThrow("down");
    isDown = false;
    await flaky.prepare("a", [budget], noonMs);
    expect(flaky.usedOf(budget)).toBe(15n);
  });
});
