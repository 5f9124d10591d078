import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AdmitRequest, Ledger, Settlement } from "../../src/domain/ledger.js";

export interface LedgerHarness {
  readonly ledger: Ledger;
  /** Moves the store's time. */
  advance(ms: number): Promise<void>;
  usage(account: string): Promise<{
    readonly requests: number;
    readonly promptTokens: number;
    readonly completionTokens: number;
    readonly cachedTokens: number;
  }>;
  close(): Promise<void>;
}

const leaseMs = 60_000;

/** What every driver's Ledger does without limits. `open` gives an empty one, which the suite closes. */
export function describeLedger(name: string, open: () => Promise<LedgerHarness>): void {
  describe(`Ledger: ${name}`, () => {
    let harness: LedgerHarness;
    let ledger: Ledger;
    beforeEach(async () => {
      harness = await open();
      ledger = harness.ledger;
    });
    afterEach(() => harness.close());

    it("adds up what settled requests used, per account", async () => {
      await settleAll(ledger, [
        settlement("req_1", { promptTokens: 10, completionTokens: 5, cachedTokens: 4 }),
        settlement("req_2", { promptTokens: 1, completionTokens: 2, cachedTokens: 0 }),
        settlement("req_3", { account: "other", promptTokens: 100, completionTokens: 0, cachedTokens: 0 }),
      ]);
      expect(await harness.usage("a")).toMatchObject({
        requests: 2,
        promptTokens: 11,
        completionTokens: 7,
        cachedTokens: 4,
      });
      expect(await harness.usage("other")).toMatchObject({ requests: 1, promptTokens: 100 });
      expect(await harness.usage("nobody")).toMatchObject({ requests: 0, promptTokens: 0 });
    });

    it("USE-1: counts a request once, however often its end is told, also at the same moment", async () => {
      await ledger.admit(admission("req_1"));
      const answers = await Promise.all([1, 2, 3].map(() => ledger.settle(settlement("req_1"))));
      expect(answers.map(({ duplicate }) => duplicate).toSorted()).toEqual([false, true, true]);
      expect(await harness.usage("a")).toMatchObject({ requests: 1, promptTokens: 10 });
    });

    it("admits a repeat as the first time, and does not revive a request that has ended", async () => {
      const first = await ledger.admit(admission("req_1"));
      expect(await ledger.admit(admission("req_1"))).toEqual(first);
      expect(await ledger.liveLeases()).toBe(1);
      await ledger.settle(settlement("req_1"));
      expect(await ledger.admit(admission("req_1"))).toEqual(first);
      expect(await ledger.liveLeases()).toBe(0);
    });

    it("counts a settlement whose admission was never seen", async () => {
      expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
      expect(await harness.usage("a")).toMatchObject({ requests: 1 });
    });

    it("holds a lease from the admission to the end", async () => {
      await ledger.admit(admission("req_1"));
      await ledger.admit(admission("req_2"));
      expect(await ledger.liveLeases()).toBe(2);
      await ledger.settle(settlement("req_1"));
      expect(await ledger.liveLeases()).toBe(1);
    });

    it("finds requests that nobody renewed when their lease has run out, and no others", async () => {
      await ledger.admit(admission("req_1"));
      await ledger.admit(admission("req_2"));
      await harness.advance(leaseMs - 1);
      expect(await ledger.sweepLost(10)).toEqual([]);
      await ledger.renew(["req_2", "req_unknown"]);
      await harness.advance(1);
      expect(await ledger.sweepLost(10)).toEqual([{ requestId: "req_1", account: "a" }]);
      expect(await ledger.liveLeases()).toBe(1);
    });

    it("counts a lost request once, whoever sweeps and whatever is told of it later", async () => {
      await ledger.admit(admission("req_1"));
      await harness.advance(leaseMs);
      const swept = await Promise.all([ledger.sweepLost(10), ledger.sweepLost(10)]);
      expect(swept.flat()).toHaveLength(1);
      expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: true });
      expect(await harness.usage("a")).toMatchObject({ requests: 1, promptTokens: 0 });
    });

    it("sweeps at most as many as asked for", async () => {
      for (const id of ["req_1", "req_2", "req_3"]) await ledger.admit(admission(id));
      await harness.advance(leaseMs);
      expect(await ledger.sweepLost(2)).toHaveLength(2);
      expect(await ledger.sweepLost(2)).toHaveLength(1);
    });

    it("a refused request is no usage and may be charged twice without harm", async () => {
      const refused = { requestId: "req_1", account: "a", keyId: null };
      await ledger.chargeRefused(refused);
      await ledger.chargeRefused(refused);
      expect(await harness.usage("a")).toMatchObject({ requests: 0, promptTokens: 0 });
    });
  });
}

function admission(requestId: string): AdmitRequest {
  return { requestId, account: "a", keyId: "key_1", model: "m", tokens: 0, leaseMs };
}

function settlement(requestId: string, changes: Partial<Settlement> = {}): Settlement {
  return {
    requestId,
    account: "a",
    keyId: "key_1",
    model: "m",
    operation: "create_chat_completion",
    why: "completed",
    error: null,
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: 0,
    latencyMs: 1,
    ...changes,
  };
}

async function settleAll(ledger: Ledger, settlements: readonly Settlement[]): Promise<void> {
  for (const each of settlements) {
    await ledger.admit({ ...admission(each.requestId), account: each.account });
    await ledger.settle(each);
  }
}
