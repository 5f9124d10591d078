import { describe, expect, it } from "vitest";
import { StoreTime } from "../../../src/lib/clock.js";

const startMs = Date.UTC(2026, 0, 1, 12);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** A wall clock and a monotonic clock that the test moves independently, and the reported jumps. */
function clocks() {
  const at = { wallMs: startMs, monotonicMs: 0 };
  const jumps: number[] = [];
  return {
    at,
    jumps,
    onJump: (byMs: number) => void jumps.push(byMs),
    clock: { now: () => at.wallMs, monotonic: () => at.monotonicMs },
    pass(ms: number) {
      at.wallMs += ms;
      at.monotonicMs += ms;
    },
  };
}

describe("StoreTime", () => {
  it("equals the machine's time while that advances, also after a jump forward", () => {
    const { at, clock, pass } = clocks();
    const time = new StoreTime(clock);
    expect(time.now()).toBe(startMs);
    pass(1_500);
    expect(time.now()).toBe(startMs + 1_500);
    at.wallMs += hourMs;
    expect(time.now()).toBe(startMs + hourMs + 1_500);
    expect(time.aheadMs()).toBe(0);
  });

  it("advances after the clock is set back by less than the maximum, until the clock has caught up (REL-20)", () => {
    const { at, clock, pass, jumps, onJump } = clocks();
    const time = new StoreTime(clock, { onJump });
    at.wallMs -= 5 * minuteMs;
    expect(time.now()).toBe(startMs);
    expect(time.aheadMs()).toBe(5 * minuteMs);
    let lastMs = time.now();
    for (let minute = 0; minute < 9; minute++) {
      pass(minuteMs);
      expect(time.now()).toBe(lastMs + minuteMs / 2);
      lastMs = time.now();
    }
    pass(minuteMs);
    expect(time.now()).toBe(at.wallMs);
    pass(minuteMs);
    expect(time.now()).toBe(at.wallMs);
    expect(time.aheadMs()).toBe(0);
    expect(jumps).toEqual([]);
  });

  it.each([40 * dayMs, 2 * hourMs])(
    "follows the clock back after a jump by %i ms, and reports both jumps (E-22)",
    (jumpMs) => {
      const { at, clock, pass, jumps, onJump } = clocks();
      const time = new StoreTime(clock, { onJump });
      pass(1_000);
      at.wallMs += jumpMs;
      expect(time.now()).toBe(startMs + 1_000 + jumpMs);
      pass(1_000);
      expect(time.now()).toBe(startMs + 2_000 + jumpMs);
      at.wallMs -= jumpMs;
      pass(1_000);
      expect(time.now()).toBe(startMs + 3_000);
      expect(time.aheadMs()).toBe(jumpMs - 1_000);
      pass(10_000);
      expect(time.now()).toBe(startMs + 13_000);
      expect(jumps).toEqual([jumpMs, -jumpMs]);
    },
  );

  it("stays further ahead of the clock if the operator allows it (E-22)", () => {
    const { at, clock } = clocks();
    const time = new StoreTime(clock, { leadMaxMs: 2 * hourMs });
    at.wallMs -= hourMs;
    expect(time.now()).toBe(startMs);
    at.wallMs -= 2 * hourMs;
    expect(time.now()).toBe(startMs - 3 * hourMs);
  });

  it("accumulates fractions of a millisecond while it runs slower", () => {
    const { at, clock, pass } = clocks();
    const time = new StoreTime(clock);
    at.wallMs -= 4 * minuteMs;
    for (let count = 0; count < 1_000; count++) {
      pass(0.25);
      time.now();
    }
    expect(time.now()).toBe(startMs + 125);
  });

  it("starts at the newest stored time, unless that is ahead by more than the maximum (E-22)", () => {
    const { clock } = clocks();
    expect(new StoreTime(clock, { seenAtMs: startMs + minuteMs }).now()).toBe(startMs + minuteMs);
    expect(new StoreTime(clock, { seenAtMs: startMs - hourMs }).now()).toBe(startMs);
    const ahead = new StoreTime(clock, { seenAtMs: startMs + 40 * dayMs });
    expect([ahead.now(), ahead.aheadMs()]).toEqual([startMs, 40 * dayMs]);
  });
});
