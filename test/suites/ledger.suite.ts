import { beforeEach, describe, expect, it } from "vitest";
import { periodAt, type UsageSums } from "../../src/domain/events/events.js";
import type { Ledger } from "../../src/domain/metering/ledger.js";
import { admission, leaseMs, scope, settlement } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Tests of the stages of a request: admitted, renewed, settled or lost. */
export function describeLedger(open: OpenState): void {
  describe("Ledger", () => {
    const harness = eachTest(open);
    let ledger: Ledger;
    beforeEach(() => {
      ledger = harness.state.ledger;
    });
    const usedBy = (account: string): Promise<UsageSums> =>
      harness.state.usage.used(account, { kind: "account", id: account }, periodAt("month", harness.state.now()));

    it("counts a request once, even if it is settled several times or simultaneously (USE-1)", async () => {
      await ledger.admit(admission("req_1"));
      const answers = await Promise.all([1, 2, 3].map(() => ledger.settle(settlement("req_1"))));
      expect(answers.map(({ duplicate }) => duplicate).toSorted()).toEqual([false, true, true]);
      expect(await ledger.settle(settlement("req_1"))).toEqual({ duplicate: true, crossed: [] });
      expect(await usedBy("a")).toMatchObject({ requests: 1n, promptTokens: 10n });
    });

    it("counts each of many requests once when all are settled twice at the same time (USE-1)", async () => {
      const ids = Array.from({ length: 100 }, (_, number) => `req_${number}`);
      await Promise.all(ids.map((id) => ledger.admit(admission(id))));
      const answers = await Promise.all([...ids, ...ids].map((id) => ledger.settle(settlement(id))));
      expect(answers.filter(({ duplicate }) => duplicate)).toHaveLength(100);
      expect(await usedBy("a")).toMatchObject({ requests: 100n, promptTokens: 1_000n, completionTokens: 500n });
    });

    it("counts a settlement without a known admission once (USE-1)", async () => {
      expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
      expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: true });
      expect(await usedBy("a")).toMatchObject({ requests: 1n });
    });

    it("counts a request that was admitted without the store once (USE-1)", async () => {
      const degraded = settlement("req_1", { degraded: true });
      expect(await ledger.settle(degraded)).toMatchObject({ duplicate: false });
      expect(await ledger.settle(degraded)).toMatchObject({ duplicate: true });
      expect(await usedBy("a")).toMatchObject({ requests: 1n, promptTokens: 10n });
    });

    it("returns the first answer to a repeated admission, and does not admit an ended request again", async () => {
      const request = admission("req_1", { scopes: [scope("key", "key_1", { requestsPerMinute: 10 })] });
      const first = await ledger.admit(request);
      expect(await ledger.admit(request)).toMatchObject({ admitted: true, snapshot: { requests: { remaining: 9 } } });
      expect(first).toMatchObject({ admitted: true, snapshot: { requests: { remaining: 9 } } });
      expect(await ledger.liveLeases()).toBe(1);
      await ledger.settle(settlement("req_1"));
      expect(await ledger.admit(request)).toMatchObject({ admitted: true });
      expect(await ledger.liveLeases()).toBe(0);
    });

    it("keeps a lease for a request from its admission to its settlement", async () => {
      await ledger.admit(admission("req_1"));
      await ledger.admit(admission("req_2"));
      expect(await ledger.liveLeases()).toBe(2);
      await ledger.settle(settlement("req_1"));
      expect(await ledger.liveLeases()).toBe(1);
    });

    it("a rejected request adds no usage and has no lease, even if it is reported twice", async () => {
      const refused = { requestId: "req_1", account: "a", keyId: null, scopes: [] };
      await ledger.chargeRefused(refused);
      await ledger.chargeRefused(refused);
      expect(await usedBy("a")).toMatchObject({ requests: 0n, promptTokens: 0n });
      expect(await ledger.liveLeases()).toBe(0);
    });

    it("finds requests whose lease has expired, and no others (state RL-18)", async () => {
      await ledger.admit(admission("req_1"));
      await ledger.admit(admission("req_2"));
      await harness.advance(leaseMs - 10_000);
      expect(await ledger.sweepLost(10, leaseMs)).toEqual([]);
      const running = { account: "a", promptTokens: 0, completionTokens: 0 };
      await ledger.renew(
        [
          { requestId: "req_2", ...running },
          { requestId: "req_unknown", ...running },
        ],
        leaseMs,
      );
      await harness.advance(10_000);
      expect(await ledger.sweepLost(10, leaseMs)).toMatchObject([{ requestId: "req_1", account: "a" }]);
    });

    it("returns caller, admission time and progress of a lost request (USE-13)", async () => {
      const atMs = harness.state.now();
      await ledger.admit(admission("req_1", { operation: "create_embeddings", promptTokens: 7 }));
      await ledger.admit(admission("req_2", { account: "b", keyId: null, model: "org/n", promptTokens: 8 }));
      await ledger.renew([{ requestId: "req_2", account: "b", promptTokens: 9, completionTokens: 33 }], leaseMs);
      await harness.advance(leaseMs);
      const lost = await ledger.sweepLost(10, leaseMs);
      expect(lost.toSorted((a, b) => (a.requestId < b.requestId ? -1 : 1))).toEqual([
        {
          requestId: "req_1",
          account: "a",
          keyId: "key_1",
          model: "m",
          operation: "create_embeddings",
          admittedAtMs: expect.any(Number),
          promptTokens: 7,
          completionTokens: 0,
        },
        {
          requestId: "req_2",
          account: "b",
          keyId: null,
          model: "org/n",
          operation: "create_chat_completion",
          admittedAtMs: expect.any(Number),
          promptTokens: 9,
          completionTokens: 33,
        },
      ]);
      for (const { admittedAtMs } of lost) expect(Math.abs(admittedAtMs - atMs)).toBeLessThan(leaseMs / 2);
    });

    it("two sweeps never return the same lost request, and the process that gets it has the time of one lease to settle it (USE-13)", async () => {
      const ids = Array.from({ length: 20 }, (_, number) => `req_${number}`);
      for (const id of ids) await ledger.admit(admission(id));
      await harness.advance(leaseMs);
      const swept = await Promise.all([ledger.sweepLost(15, leaseMs), ledger.sweepLost(15, leaseMs)]);
      expect(
        swept
          .flat()
          .map(({ requestId }) => requestId)
          .toSorted(),
      ).toEqual(ids.toSorted());
      expect(await ledger.sweepLost(100, leaseMs)).toEqual([]);
      await harness.advance(leaseMs);
      expect(await ledger.sweepLost(100, leaseMs)).toHaveLength(20);
    });

    it("counts a lost request once, even if its process settles it later (USE-13)", async () => {
      await ledger.admit(admission("req_1"));
      await harness.advance(leaseMs);
      const [lost] = await ledger.sweepLost(10, leaseMs);
      expect(lost?.requestId).toBe("req_1");
      const swept = settlement("req_1", {
        why: "failed",
        error: "internal_error",
        promptTokens: 3,
        completionTokens: 0,
      });
      expect(await ledger.settle(swept)).toMatchObject({ duplicate: false });
      expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: true });
      expect(await usedBy("a")).toMatchObject({ requests: 1n, promptTokens: 3n, completionTokens: 0n });
    });

    it("a sweep returns at most the requested number of requests", async () => {
      for (const id of ["req_1", "req_2", "req_3"]) await ledger.admit(admission(id));
      await harness.advance(leaseMs);
      expect(await ledger.sweepLost(2, leaseMs)).toHaveLength(2);
      expect(await ledger.sweepLost(2, leaseMs)).toHaveLength(1);
    });
  });
}
