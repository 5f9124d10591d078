import { describe, expect, it } from "vitest";
import { createStoreTime } from "../../../../src/state/redis/connection/scripts.js";

describe("StoreTime", () => {
  /** A process whose wall clock is wrong by an hour. */
  function atMonotonic(startMs: number) {
    const clock = { monotonicMs: startMs, now: () => 3_600_000, monotonic: () => clock.monotonicMs };
    return { clock, time: createStoreTime(clock) };
  }

  it("returns the time of the store, independently of the wall clock of the process (state RL-19)", () => {
    const { clock, time } = atMonotonic(50);
    time.observe(1_000_000, 40, 50);
    expect(time.now()).toBe(1_000_000);
    clock.monotonicMs = 1_050;
    expect(time.now()).toBe(1_001_000);
  });

  it("is not changed by a slow answer that is consistent with the current estimate", () => {
    const { time } = atMonotonic(0);
    time.observe(1_000, 0, 0);
    time.observe(1_100, 90, 500);
    expect(time.now()).toBe(1_000);
  });

  it("follows the clock of the store when it is set back or forward", () => {
    const { time } = atMonotonic(0);
    time.observe(1_000_000, 0, 0);
    time.observe(500_000, 0, 0);
    expect(time.now()).toBe(500_000);
    time.observe(2_000_000, 0, 0);
    expect(time.now()).toBe(2_000_000);
  });

  it("reports when the clock of the store is set by more than five minutes (E-22)", () => {
    const clock = { now: () => 0, monotonic: () => 0 };
    const jumps: number[] = [];
    const time = createStoreTime(
      clock,
      () => 0,
      (byMs) => void jumps.push(byMs),
    );
    const dayMs = 86_400_000;
    time.observe(1_000_000, 0, 0);
    time.observe(1_290_000, 0, 0);
    expect([jumps, time.aheadMs()]).toEqual([[], 0]);
    time.observe(40 * dayMs, 0, 0);
    time.observe(1_290_000, 0, 0);
    expect(jumps).toEqual([40 * dayMs - 1_290_000, 1_290_000 - 40 * dayMs]);
    expect(time.aheadMs()).toBe(40 * dayMs - 1_290_000);
    expect(time.now()).toBe(1_290_000);
  });

  it("returns the time of the process until the first answer of the store", () => {
    const { time } = atMonotonic(7);
    expect(time.now()).toBe(3_600_000);
  });
});
