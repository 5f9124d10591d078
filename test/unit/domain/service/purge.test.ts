import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { startPurge } from "../../../../src/domain/service/state.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

/** A store that deletes up to 4,000 records in a step, and the time budget of each step. */
function setUp(expired: number) {
  const clock = new FakeClock();
  const store = { expired, budgets: [] as (number | undefined)[], down: false };
  const state = {
    async purge(max: number, budgetMs?: number): Promise<number> {
      store.budgets.push(budgetMs);
      if (store.down) throw new Error("unavailable");
      const purged = Math.min(store.expired, max, 4_000);
      store.expired -= purged;
      return purged;
    },
  };
  const stop = startPurge({ state, clock, log: silentLog });
  const pass = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 100) {
      clock.advance(100);
      await setImmediate();
    }
  };
  return { store, pass, stop };
}

describe("retention", () => {
  it("deletes a backlog of 300,000 records within ten seconds, in steps of ten milliseconds (E-34)", async () => {
    const { store, pass, stop } = setUp(300_000);
    await pass(10_000);
    expect(store.expired).toBe(0);
    expect(new Set(store.budgets)).toEqual(new Set([10]));
    stop();
  });

  it("deletes 8,000 records a second as they expire, at most half a minute late (E-34)", async () => {
    const { store, pass, stop } = setUp(0);
    let most = 0;
    for (let second = 0; second < 120; second++) {
      store.expired += 8_000;
      most = Math.max(most, store.expired);
      await pass(1_000);
    }
    expect(most).toBeLessThanOrEqual(31 * 8_000);
    stop();
  });

  it("waits while nothing expires, continues after an outage, and ends when its stop function is called", async () => {
    const { store, pass, stop } = setUp(0);
    await pass(1_000);
    expect(store.budgets).toHaveLength(1);
    store.down = true;
    await pass(30_000);
    store.down = false;
    store.expired = 10;
    await pass(30_000);
    expect(store.expired).toBe(0);
    stop();
    store.expired = 10;
    await pass(60_000);
    expect(store.expired).toBe(10);
  });
});
