import { describe, expect, it } from "vitest";
import { createVolatileState } from "../../src/state/volatile/volatile-state.js";
import { FakeClock } from "../support/fake-clock.js";
import { admission, settlement } from "./ledger-records.js";
import { describeState } from "./state.suite.js";

describeState("volatile", async (bounds) => {
  const clock = new FakeClock();
  const state = createVolatileState({ clock, ...bounds });
  return { state, leewayMs: 1, advance: async (ms) => clock.advance(ms), close: () => state.close() };
});

describe("volatile state", () => {
  it("says that nothing survives a stop", async () => {
    const { durability, warnings } = await createVolatileState().health();
    expect(durability).toBe("none");
    expect(warnings).toHaveLength(1);
  });

  it("takes no sum that is not a count", async () => {
    const { ledger, usage } = createVolatileState({ clock: new FakeClock() });
    expect(() => ledger.settle(settlement("req_1", { promptTokens: 1.5 }))).toThrow("promptTokens is a count");
    expect(() => ledger.settle(settlement("req_1", { costNano: -1 }))).toThrow("costNano is a count");
    expect(await usage.accounts()).toEqual([]);
  });

  it("admits no more than it can hold, and again when one has ended", async () => {
    const { ledger } = createVolatileState({ clock: new FakeClock() });
    for (let number = 0; number < 100_000; number++) await ledger.admit(admission(`req_${number}`));
    expect(() => ledger.admit(admission("req_more"))).toThrow(
      expect.objectContaining({ code: "server_is_overloaded" }),
    );
    await ledger.settle(settlement("req_0"));
    expect(ledger.admit(admission("req_more"))).toMatchObject({ admitted: true });
  });
});
