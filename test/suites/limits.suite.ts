import { beforeEach, describe, expect, it } from "vitest";
import type { LimitScope } from "../../src/domain/call/rate-limits.js";
import type { Admission, AdmitRequest, Ledger, LimitRefusal } from "../../src/domain/metering/ledger.js";
import { admission, leaseMs, scope, settlement } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const everyLimit = { requestsPerMinute: 100, tokensPerMinute: 10_000, concurrency: 100 };

/** Tests of limits of requests, tokens and running requests, which an admission checks atomically. */
export function describeLimits(open: OpenState): void {
  describe("Limits", () => {
    const harness = eachTest(open);
    let ledger: Ledger;
    let count = 0;
    beforeEach(() => {
      ledger = harness.state.ledger;
      count = 0;
    });

    /** Admits one more request, under a new id. */
    const admit = async (scopes: readonly LimitScope[], tokens = 0, changes: Partial<AdmitRequest> = {}) => {
      count += 1;
      return ledger.admit(admission(`req_${count}`, { scopes, reserve: { tokens, costNano: 0 }, ...changes }));
    };
    const settleLast = async (
      promptTokens: number,
      completionTokens: number,
      why: "completed" | "client_left" = "completed",
    ) => ledger.settle(settlement(`req_${count}`, { promptTokens, completionTokens, why }));
    const tokensOf = async (limit: LimitScope): Promise<number | undefined> =>
      (await ledger.inspect("a", [limit]))[0]?.tokens;

    describe("rejects a request that exceeds a limit (state RL-1)", () => {
      for (const kind of ["key", "account", "model"] as const) {
        it(`requests per minute of a ${kind}`, async () => {
          const limit = scope(kind, "o", { requestsPerMinute: 2 });
          expect([await admit([limit]), await admit([limit])]).toMatchObject([{ admitted: true }, { admitted: true }]);
          const refusal = refusalOf(await admit([limit]));
          expect(refusal).toMatchObject({ which: "requests", owner: limit.owner, limit: 2, used: 2, requested: 1 });
        });

        it(`tokens per minute of a ${kind}`, async () => {
          const limit = scope(kind, "o", { tokensPerMinute: 100 });
          expect(await admit([limit], 60)).toMatchObject({ admitted: true });
          const refusal = refusalOf(await admit([limit], 41));
          expect(refusal).toMatchObject({ which: "tokens", owner: limit.owner, limit: 100, used: 60, requested: 41 });
          expect(await admit([limit], 40)).toMatchObject({ admitted: true });
        });

        it(`running requests of a ${kind}, until one ends`, async () => {
          const limit = scope(kind, "o", { concurrency: 2 });
          await admit([limit]);
          await admit([limit]);
          expect(refusalOf(await admit([limit]))).toEqual({
            which: "concurrency",
            owner: limit.owner,
            limit: 2,
            used: 2,
            requested: 1,
            retryAfterMs: 1_000,
          });
          await ledger.settle(settlement("req_1"));
          expect(await admit([limit])).toMatchObject({ admitted: true });
        });
      }

      it("admits all requests if no limit is set", async () => {
        const answers = await Promise.all(Array.from({ length: 50 }, () => admit([], 1_000_000)));
        expect(answers).toEqual(answers.map(() => ({ admitted: true, degraded: false })));
      });
    });

    it("a model's limit applies to each account separately", async () => {
      const limit = scope("model", "m", { requestsPerMinute: 1, concurrency: 1 });
      expect(await admit([limit])).toMatchObject({ admitted: true });
      expect(await admit([limit], 0, { account: "b" })).toMatchObject({ admitted: true });
      expect(await admit([limit])).toMatchObject({ admitted: false });
      expect(await admit([limit], 0, { account: "b" })).toMatchObject({ admitted: false });
    });

    it("owners of different kinds with the same name have separate windows", async () => {
      const limits = (["key", "account", "model"] as const).map((kind) =>
        scope(kind, "same", { requestsPerMinute: 1 }),
      );
      for (const limit of limits) expect(await admit([limit])).toMatchObject({ admitted: true });
    });

    describe("a rejected request is charged on no limit (state RL-2)", () => {
      const key = scope("key", "key_1", { requestsPerMinute: 10, tokensPerMinute: 1_000, concurrency: 10 });
      const model = scope("model", "m", { requestsPerMinute: 10, tokensPerMinute: 1_000, concurrency: 10 });
      const tight: readonly [string, LimitScope][] = [
        ["requests", scope("account", "a", { requestsPerMinute: 1 })],
        ["tokens", scope("account", "a", { tokensPerMinute: 100 })],
        ["running requests", scope("account", "a", { concurrency: 1 })],
      ];
      for (const [title, account] of tight) {
        it(`when it is rejected for ${title}`, async () => {
          await admit([account], 100);
          expect(await admit([key, account, model], 100)).toMatchObject({ admitted: false });
          for (const use of await ledger.inspect("a", [key, model])) {
            expect(use).toMatchObject({ requests: 0, tokens: 0, running: 0 });
          }
          expect(await ledger.liveLeases()).toBe(1);
        });
      }
    });

    it("admits exactly as many simultaneous requests as the limit allows (state RL-3)", async () => {
      const scopes = [
        scope("key", "key_1", { requestsPerMinute: 20 }),
        scope("account", "a", { requestsPerMinute: 15 }),
      ];
      const answers = await Promise.all(Array.from({ length: 60 }, () => admit(scopes)));
      expect(answers.filter(({ admitted }) => admitted)).toHaveLength(15);
    });

    it("reserves tokens for exactly as many simultaneous requests as the limit allows (state RL-3)", async () => {
      const limit = scope("account", "a", { tokensPerMinute: 1_000 });
      const answers = await Promise.all(Array.from({ length: 40 }, () => admit([limit], 90)));
      expect(answers.filter(({ admitted }) => admitted)).toHaveLength(11);
      expect(await tokensOf(limit)).toBe(990);
    });

    it("a charge counts for 60 seconds (state RL-3)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 1 });
      await admit([limit]);
      for (const ms of [20_000, 20_000, 12_000]) {
        await harness.advance(ms);
        expect(await admit([limit])).toMatchObject({ admitted: false });
      }
    });

    it("the whole limit is available again after 65 seconds (state RL-4)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 5, tokensPerMinute: 100 });
      for (let i = 0; i < 5; i++) await admit([limit], 20);
      await harness.advance(65_000);
      for (let i = 0; i < 5; i++) expect(await admit([limit], 20)).toMatchObject({ admitted: true });
    });

    it("a rejected client is admitted after the wait that the rejection states (state RL-10)", async () => {
      const limit = scope("account", "a", { tokensPerMinute: 100 });
      for (const [afterMs, tokens] of [
        [0, 40],
        [7_000, 20],
        [13_000, 15],
        [21_000, 25],
      ] as const) {
        await harness.advance(afterMs);
        await admit([limit], tokens);
      }
      for (const tokens of [30, 55, 90, 100]) {
        const waitMs = refusalOf(await admit([limit], tokens)).retryAfterMs ?? Number.NaN;
        expect(waitMs).toBeGreaterThan(0);
        expect(waitMs).toBeLessThanOrEqual(65_000);
        await harness.advance(waitMs);
        expect(await admit([limit], tokens)).toMatchObject({ admitted: true });
      }
    });

    it("the stated wait lasts until enough charges have expired, not until the whole window is empty (state RL-10)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 2 });
      await admit([limit]);
      await harness.advance(40_000);
      await admit([limit]);
      const waitMs = refusalOf(await admit([limit])).retryAfterMs ?? Number.NaN;
      expect(waitMs).toBeGreaterThan(10_000);
      expect(waitMs).toBeLessThanOrEqual(25_000);
    });

    it("a request larger than the limit is rejected without a wait, also on an empty window (state RL-8)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 5, tokensPerMinute: 100 });
      expect(refusalOf(await admit([limit], 101))).toEqual({
        which: "tokens",
        owner: limit.owner,
        limit: 100,
        used: 0,
        requested: 101,
        retryAfterMs: null,
      });
    });

    it("returns the rejection with the longest wait if there are several", async () => {
      const key = scope("key", "key_1", { requestsPerMinute: 1, concurrency: 1 });
      const account = scope("account", "a", { requestsPerMinute: 1 });
      await admit([key]);
      await harness.advance(20_000);
      await admit([account]);
      expect(refusalOf(await admit([key, account])).owner).toEqual(account.owner);
      const small = scope("model", "m", { tokensPerMinute: 10 });
      expect(refusalOf(await admit([key, account, small], 11))).toMatchObject({ which: "tokens", retryAfterMs: null });
    });

    describe("an answer to an admission contains (wire RL-1)", () => {
      it("the remaining amounts of the tightest limit, after the charge of the request", async () => {
        const key = scope("key", "key_1", { requestsPerMinute: 10, tokensPerMinute: 500 });
        const account = scope("account", "a", { requestsPerMinute: 4, tokensPerMinute: 1_000 });
        const { snapshot } = await admit([key, account], 100);
        expect(snapshot).toEqual({
          requests: { owner: account.owner, limit: 4, remaining: 3, resetMs: expect.any(Number) },
          tokens: { owner: key.owner, limit: 500, remaining: 400, resetMs: expect.any(Number) },
        });
        for (const state of [snapshot?.requests, snapshot?.tokens]) {
          expect(state?.resetMs).toBeGreaterThan(59_000);
          expect(state?.resetMs).toBeLessThanOrEqual(65_000);
        }
      });

      it("the remaining amounts also for a rejected request, which is not charged", async () => {
        const limit = scope("account", "a", { requestsPerMinute: 4, tokensPerMinute: 100 });
        await admit([limit], 70);
        const refused = await admit([limit], 50);
        expect(refused.snapshot).toMatchObject({
          requests: { limit: 4, remaining: 3 },
          tokens: { limit: 100, remaining: 30 },
        });
      });

      it("the full limit and no wait for an unused window", async () => {
        const limit = scope("account", "a", { requestsPerMinute: 4, tokensPerMinute: 100 });
        const { snapshot } = await admit([limit], 101);
        expect(snapshot?.requests).toEqual({ owner: limit.owner, limit: 4, remaining: 4, resetMs: 0 });
      });

      it("no remaining amount for dimensions without a limit", async () => {
        const { snapshot } = await admit([scope("account", "a", { tokensPerMinute: 100 })], 10);
        expect(snapshot?.requests).toBeUndefined();
        expect(snapshot?.tokens?.remaining).toBe(90);
      });
    });

    describe("when a request ends (state RL-6)", () => {
      const limit = scope("account", "a", { requestsPerMinute: 10, tokensPerMinute: 1_000, concurrency: 10 });

      it("tokens that were reserved but not used are refunded once", async () => {
        await admit([limit], 800);
        await settleLast(100, 50);
        await settleLast(100, 50);
        expect(await ledger.inspect("a", [limit])).toEqual([
          { owner: limit.owner, requests: 1, tokens: 150, running: 0 },
        ]);
      });

      it("usage above the reservation is charged, and the remaining amount is never negative", async () => {
        await admit([limit], 900);
        await settleLast(900, 300);
        expect(await tokensOf(limit)).toBe(1_200);
        const refused = await admit([limit], 10);
        expect(refused).toMatchObject({ admitted: false, snapshot: { tokens: { limit: 1_000, remaining: 0 } } });
      });

      it("no tokens are refunded for charges that have left the window", async () => {
        await admit([limit], 800);
        await harness.advance(70_000);
        await ledger.admit(admission("req_late", { scopes: [limit], reserve: { tokens: 300, costNano: 0 } }));
        await settleLast(0, 0);
        expect(await tokensOf(limit)).toBe(300);
      });

      it("usage above a charge that has left the window is charged at the time of the settlement", async () => {
        await admit([limit], 100);
        await harness.advance(70_000);
        await settleLast(100, 50);
        expect(await tokensOf(limit)).toBe(50);
      });

      it("the charges on all limits of the request are corrected", async () => {
        const key = scope("key", "key_1", { tokensPerMinute: 2_000 });
        const model = scope("model", "m", { tokensPerMinute: 3_000 });
        await admit([key, limit, model], 800);
        await settleLast(100, 50);
        expect((await ledger.inspect("a", [key, limit, model])).map(({ tokens }) => tokens)).toEqual([150, 150, 150]);
      });
    });

    it("a request whose client disconnects is charged for its prompt and the tokens produced (state RL-7)", async () => {
      const limit = scope("account", "a", { tokensPerMinute: 1_000 });
      await admit([limit], 800);
      await settleLast(100, 7, "client_left");
      expect(await tokensOf(limit)).toBe(107);
    });

    it("a failure before the first token refunds the tokens but not the request (state RL-14)", async () => {
      const limit = scope("account", "a", everyLimit);
      await admit([limit], 800);
      await ledger.settle(
        settlement("req_1", { why: "failed", error: "internal_error", promptTokens: 0, completionTokens: 0 }),
      );
      expect(await ledger.inspect("a", [limit])).toEqual([{ owner: limit.owner, requests: 1, tokens: 0, running: 0 }]);
    });

    it("a request that validation rejects costs one request, once, even above the limit (state RL-14)", async () => {
      const limit = scope("account", "a", { requestsPerMinute: 2, tokensPerMinute: 100 });
      for (const requestId of ["req_x", "req_y", "req_z", "req_z"]) {
        await ledger.chargeRefused({ requestId, account: "a", keyId: "key_1", scopes: [limit] });
      }
      expect(await ledger.inspect("a", [limit])).toEqual([{ owner: limit.owner, requests: 3, tokens: 0, running: 0 }]);
      expect(refusalOf(await admit([limit]))).toMatchObject({ which: "requests", used: 3 });
    });

    it("settling a request that was admitted without the store changes no window", async () => {
      const limit = scope("account", "a", { tokensPerMinute: 1_000 });
      await admit([limit], 100);
      await ledger.settle(settlement("req_elsewhere", { degraded: true, promptTokens: 500 }));
      expect(await tokensOf(limit)).toBe(100);
    });

    it("an admission that reached the store after its timeout keeps its charge of tokens and no longer counts as running when it is settled", async () => {
      const limit = scope("account", "a", { tokensPerMinute: 1_000, concurrency: 1 });
      await admit([limit], 100);
      await ledger.settle(settlement("req_1", { degraded: true, promptTokens: 500 }));
      expect(await ledger.inspect("a", [limit])).toMatchObject([{ tokens: 100, running: 0 }]);
    });

    it("a repeated admission is charged once", async () => {
      const limit = scope("account", "a", everyLimit);
      const request = admission("req_1", { scopes: [limit], reserve: { tokens: 50, costNano: 0 } });
      await Promise.all([1, 2, 3].map(() => ledger.admit(request)));
      expect(await ledger.inspect("a", [limit])).toEqual([{ owner: limit.owner, requests: 1, tokens: 50, running: 1 }]);
    });

    it("a changed limit applies to the current contents of its window", async () => {
      await admit([scope("account", "a", { requestsPerMinute: 5 })]);
      await admit([scope("account", "a", { requestsPerMinute: 5 })]);
      expect(await admit([scope("account", "a", { requestsPerMinute: 2 })])).toMatchObject({ admitted: false });
      expect(await admit([scope("account", "a", { requestsPerMinute: 3 })])).toMatchObject({ admitted: true });
    });

    it("a request whose process died no longer counts as running once the sweep has settled it (state RL-18)", async () => {
      const limit = scope("account", "a", { concurrency: 1 });
      await admit([limit]);
      await harness.advance(leaseMs);
      for (const { requestId } of await ledger.sweepLost(10, leaseMs)) {
        await ledger.settle(settlement(requestId, { why: "failed", error: "internal_error" }));
      }
      expect(await admit([limit])).toMatchObject({ admitted: true });
    });

    describe("an administrator (state RL-22)", () => {
      const limits = [
        scope("key", "key_1", everyLimit),
        scope("account", "a", everyLimit),
        scope("model", "m", everyLimit),
      ];
      const [key, account, model] = limits as [LimitScope, LimitScope, LimitScope];

      it("reads current usage in the order of the query", async () => {
        await admit([key, account, model], 70);
        await admit([account], 5);
        expect(await ledger.inspect("a", [model, account, key, scope("key", "unused", everyLimit)])).toEqual([
          { owner: model.owner, requests: 1, tokens: 70, running: 1 },
          { owner: account.owner, requests: 2, tokens: 75, running: 2 },
          { owner: key.owner, requests: 1, tokens: 70, running: 1 },
          { owner: { kind: "key", id: "unused" }, requests: 0, tokens: 0, running: 0 },
        ]);
        expect((await ledger.inspect("b", [model]))[0]).toMatchObject({ requests: 0, tokens: 0 });
      });

      it("empties the rate limit window of one account, key or model; running requests continue", async () => {
        await admit([key, account, model], 70);
        await ledger.resetWindow("a", model.owner);
        expect(await ledger.inspect("a", [model, key])).toEqual([
          { owner: model.owner, requests: 0, tokens: 0, running: 1 },
          { owner: key.owner, requests: 1, tokens: 70, running: 1 },
        ]);
        await settleLast(10, 5);
        expect(await ledger.inspect("a", [model, key])).toMatchObject([
          { tokens: 0, running: 0 },
          { tokens: 15, running: 0 },
        ]);
      });

      it("empties a model's window for one account only", async () => {
        await admit([model], 70);
        await admit([model], 70, { account: "b" });
        await ledger.resetWindow("b", model.owner);
        expect((await ledger.inspect("a", [model]))[0]).toMatchObject({ requests: 1, tokens: 70 });
        expect((await ledger.inspect("b", [model]))[0]).toMatchObject({ requests: 0, tokens: 0 });
      });
    });
  });
}

function refusalOf(answer: Admission): LimitRefusal {
  if (answer.admitted) throw new Error("the request was admitted");
  if (answer.refusal.which === "budget") throw new Error("a budget refused the request");
  return answer.refusal;
}
