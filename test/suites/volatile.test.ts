import { describe, expect, it } from "vitest";
import { createVolatileLedger } from "../../src/state/volatile/volatile-ledger.js";
import { createVolatileState } from "../../src/state/volatile/volatile-state.js";
import { FakeClock } from "../support/fake-clock.js";
import { describeCatalogStore } from "./catalog-store.suite.js";
import { describeKeyStore } from "./key-store.suite.js";
import { describeLedger } from "./ledger.suite.js";

describeKeyStore("volatile", async () => createVolatileState());
describeCatalogStore("volatile", async () => createVolatileState());
describeLedger("volatile", async () => {
  const clock = new FakeClock();
  const ledger = createVolatileLedger({ clock });
  return {
    ledger,
    advance: async (ms) => clock.advance(ms),
    usage: async (account) => ledger.usageTotals(account),
    close: async () => {},
  };
});

describe("volatile state", () => {
  it("says that nothing survives a stop", async () => {
    const { durability, warnings } = await createVolatileState().health();
    expect(durability).toBe("none");
    expect(warnings).toHaveLength(1);
  });

  it("takes no sum that is not a count", async () => {
    const ledger = createVolatileLedger({ clock: new FakeClock() });
    const settlement = {
      requestId: "req_1",
      account: "a",
      keyId: null,
      model: "m",
      operation: "create_embeddings",
      why: "completed",
      error: null,
      promptTokens: 1.5,
      completionTokens: 0,
      cachedTokens: 0,
      latencyMs: 1,
    } as const;
    expect(() => ledger.settle(settlement)).toThrow("promptTokens is a count");
    expect(ledger.usageTotals("a").requests).toBe(0);
  });

  it("admits no more than it can hold, and again when one has ended", async () => {
    const ledger = createVolatileLedger({ clock: new FakeClock() });
    const admit = (number: number) =>
      ledger.admit({ requestId: `req_${number}`, account: "a", keyId: null, model: "m", tokens: 0, leaseMs: 1_000 });
    for (let number = 0; number < 100_000; number++) await admit(number);
    expect(() => admit(100_000)).toThrow(expect.objectContaining({ code: "server_is_overloaded" }));
    await ledger.chargeRefused({ requestId: "req_0", account: "a", keyId: null });
    expect(admit(100_000)).toMatchObject({ admitted: true });
  });
});
