import { beforeEach, describe, expect, it } from "vitest";
import { periodAt } from "../../src/domain/events/events.js";
import type { Admission, AdmitRequest, Budget, BudgetRefusal, Ledger } from "../../src/domain/metering/ledger.js";
import { admission, budget, leaseMs, scope, settlement } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Budgets: usage of the period plus reservations of running requests stays within the limit. */
export function describeBudgets(open: OpenState): void {
  describe("Budgets", () => {
    const harness = eachTest(open);
    let ledger: Ledger;
    beforeEach(() => {
      ledger = harness.state.ledger;
    });
    const admit = async (id: string, budgets: readonly Budget[], tokens: number, changes: Partial<AdmitRequest> = {}) =>
      ledger.admit(admission(id, { budgets, reserve: { tokens, costNano: 0 }, ...changes }));

    it("rejects a request that would exceed the limit, counting reservations of running requests (USE-7)", async () => {
      expect(await admit("req_1", [budget()], 600)).toEqual({ admitted: true, degraded: false });
      expect(refusalOf(await admit("req_2", [budget()], 401))).toEqual({
        which: "budget",
        thresholdId: "thr_budget",
        metric: "tokens",
        limit: 1_000n,
        used: 600n,
        requested: 401n,
        resetsAtMs: periodAt("month", harness.state.now()).endMs,
      });
      expect(await admit("req_3", [budget()], 400)).toMatchObject({ admitted: true });
    });

    it("replaces the reservation by the actual usage when a request ends (USE-7)", async () => {
      await admit("req_1", [budget()], 1_000);
      await ledger.settle(settlement("req_1", { promptTokens: 100, completionTokens: 50 }));
      await ledger.settle(settlement("req_1", { promptTokens: 100, completionTokens: 50 }));
      expect(refusalOf(await admit("req_2", [budget()], 851))).toMatchObject({ used: 150n });
      expect(await admit("req_3", [budget()], 850)).toMatchObject({ admitted: true });
    });

    it("counts usage from before the budget was set (USE-7)", async () => {
      await ledger.settle(settlement("req_1", { promptTokens: 990, completionTokens: 5 }));
      expect(await admit("req_2", [budget()], 6)).toMatchObject({ admitted: false });
      expect(await admit("req_3", [budget()], 5)).toMatchObject({ admitted: true });
    });

    it("admits exactly as many simultaneous requests as the budget allows (USE-7)", async () => {
      const ids = Array.from({ length: 50 }, (_, number) => `req_${number}`);
      const answers = await Promise.all(ids.map((id) => admit(id, [budget()], 90)));
      expect(answers.filter(({ admitted }) => admitted)).toHaveLength(11);
    });

    it("counts requests and cost in the same way as tokens (USE-7)", async () => {
      const requests = budget({ id: "thr_r", metric: "requests", limit: 2n, period: "day" });
      const cost = budget({ id: "thr_c", metric: "cost", limit: 5_000n });
      const reserve = { tokens: 0, costNano: 2_000 };
      await admit("req_1", [requests, cost], 0, { reserve });
      await ledger.settle(settlement("req_1", { costNano: 1_500 }));
      await admit("req_2", [requests, cost], 0, { reserve });
      expect(refusalOf(await admit("req_3", [requests], 0))).toMatchObject({
        thresholdId: "thr_r",
        used: 2n,
        requested: 1n,
      });
      expect(refusalOf(await admit("req_4", [cost], 0, { reserve }))).toMatchObject({
        thresholdId: "thr_c",
        used: 3_500n,
        requested: 2_000n,
      });
    });

    it("counts the account and each of its keys separately (USE-7)", async () => {
      const ofKey = (id: string): Budget => budget({ id: `thr_${id}`, scope: { kind: "key", id } });
      await admit("req_1", [ofKey("key_1")], 1_000);
      expect(await admit("req_2", [ofKey("key_1")], 1)).toMatchObject({ admitted: false });
      expect(await admit("req_3", [ofKey("key_2")], 1_000, { keyId: "key_2" })).toMatchObject({ admitted: true });
      await ledger.settle(settlement("req_3", { keyId: "key_2", promptTokens: 400, completionTokens: 0 }));
      expect(refusalOf(await admit("req_4", [ofKey("key_2")], 601, { keyId: "key_2" }))).toMatchObject({ used: 400n });
    });

    it("starts from zero in a new period (USE-6)", async () => {
      await ledger.settle(settlement("req_1", { promptTokens: 1_000, completionTokens: 0 }));
      expect(await admit("req_2", [budget()], 1)).toMatchObject({ admitted: false });
      await harness.advance(periodAt("month", harness.state.now()).endMs - harness.state.now());
      expect(await admit("req_3", [budget()], 1)).toMatchObject({ admitted: true });
    });

    it("releases the reservation of a lost request when it is settled (USE-7)", async () => {
      await admit("req_1", [budget()], 1_000);
      await harness.advance(leaseMs);
      await ledger.sweepLost(10, leaseMs);
      await ledger.settle(
        settlement("req_1", { why: "failed", error: "internal_error", promptTokens: 0, completionTokens: 0 }),
      );
      expect(await admit("req_2", [budget()], 1_000)).toMatchObject({ admitted: true });
    });

    it("charges no limit for a request that a budget rejects, and no budget for a request that a limit rejects (state RL-2)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 1, tokensPerMinute: 5_000 });
      expect(await admit("req_1", [budget()], 1_001, { scopes: [limit] })).toMatchObject({ admitted: false });
      expect(await ledger.inspect("a", [limit])).toMatchObject([{ requests: 0, tokens: 0, running: 0 }]);
      await admit("req_2", [], 0, { scopes: [limit] });
      expect(await admit("req_3", [budget()], 600, { scopes: [limit] })).toMatchObject({ admitted: false });
      expect(await admit("req_4", [budget()], 1_000)).toMatchObject({ admitted: true });
    });

    it("reports the budget if a budget and a limit both reject a request", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 1 });
      await admit("req_1", [], 0, { scopes: [limit] });
      expect(refusalOf(await admit("req_2", [budget()], 1_001, { scopes: [limit] })).thresholdId).toBe("thr_budget");
    });

    it("reports the budget that resets last if several budgets reject a request", async () => {
      const day = budget({ id: "thr_day", period: "day" });
      const month = budget({ id: "thr_month" });
      // On the last day of a month the daily and the monthly budget end at the same time.
      if (periodAt("day", harness.state.now()).endMs === periodAt("month", harness.state.now()).endMs) {
        await harness.advance(24 * 3_600_000);
      }
      expect(refusalOf(await admit("req_1", [day, month], 1_001)).thresholdId).toBe("thr_month");
    });

    it("counts exactly beyond 2^53 (USE-9)", async () => {
      const large = budget({ metric: "cost", limit: 2n ** 60n });
      for (let number = 0; number < 4; number++) {
        await ledger.settle(settlement(`req_${number}`, { costNano: Number.MAX_SAFE_INTEGER }));
      }
      const used = 4n * (2n ** 53n - 1n);
      const exact = budget({ metric: "cost", limit: used + 1n });
      const reserve = { tokens: 0, costNano: 2 };
      expect(refusalOf(await admit("req_a", [exact], 0, { reserve }))).toMatchObject({ used, requested: 2n });
      expect(await admit("req_b", [exact], 0, { reserve: { tokens: 0, costNano: 1 } })).toMatchObject({
        admitted: true,
      });
      expect(await admit("req_c", [large], 0, { reserve })).toMatchObject({ admitted: true });
    });
  });
}

function refusalOf(answer: Admission): BudgetRefusal {
  if (answer.admitted) throw new Error("the request was admitted");
  if (answer.refusal.which !== "budget") throw new Error(`a limit refused the request: ${answer.refusal.which}`);
  return answer.refusal;
}
