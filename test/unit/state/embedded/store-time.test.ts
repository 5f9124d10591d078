import { describe, expect, it } from "vitest";
import { StoreTime } from "../../../../src/state/embedded/ledger.js";

const startMs = Date.UTC(2026, 0, 1, 12);
const hourMs = 3_600_000;

/** Two clocks that the test moves independently. */
function clocks() {
  const at = { wallMs: startMs, monotonicMs: 0 };
  return {
    at,
    clock: { now: () => at.wallMs, monotonic: () => at.monotonicMs, after: () => () => {} },
    pass(ms: number) {
      at.wallMs += ms;
      at.monotonicMs += ms;
    },
  };
}

describe("StoreTime", () => {
  it("is the machine's time while that advances, also after it was set forward", () => {
    const { at, clock, pass } = clocks();
    const time = new StoreTime(clock, 0);
    expect(time.now()).toBe(startMs);
    pass(1_500);
    expect(time.now()).toBe(startMs + 1_500);
    at.wallMs += hourMs;
    expect(time.now()).toBe(startMs + hourMs + 1_500);
    expect(time.aheadMs()).toBe(0);
  });

  it("always advances after the clock is set back, until the clock has caught up (REL-20)", () => {
    const { at, clock, pass } = clocks();
    const time = new StoreTime(clock, 0);
    at.wallMs -= hourMs;
    expect(time.now()).toBe(startMs);
    expect(time.aheadMs()).toBe(hourMs);
    let lastMs = time.now();
    for (let minute = 0; minute < 119; minute++) {
      pass(60_000);
      expect(time.now()).toBe(lastMs + 30_000);
      lastMs = time.now();
    }
    pass(60_000);
    expect(time.now()).toBe(at.wallMs);
    pass(60_000);
    expect(time.now()).toBe(at.wallMs);
    expect(time.aheadMs()).toBe(0);
  });

  it("loses no fraction of a millisecond while it runs slower", () => {
    const { at, clock, pass } = clocks();
    const time = new StoreTime(clock, 0);
    at.wallMs -= hourMs;
    for (let count = 0; count < 1_000; count++) {
      pass(0.25);
      time.now();
    }
    expect(time.now()).toBe(startMs + 125);
  });

  it("starts at the newest stored time if the clock was set back", () => {
    const { clock } = clocks();
    expect(new StoreTime(clock, startMs + hourMs).now()).toBe(startMs + hourMs);
    expect(new StoreTime(clock, startMs - hourMs).now()).toBe(startMs);
  });
});
