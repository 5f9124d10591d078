import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SlidingWindow } from "../../../../src/domain/metering/limit-windows.js";

/** Arrivals of a caller that never pauses, as the times between them. */
const arrivals = fc.record({
  startMs: fc.integer({ min: 0, max: 100_000 }),
  limit: fc.integer({ min: 1, max: 50 }),
  steps: fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 9_000 }), amount: fc.integer({ min: 1, max: 12 }) }), {
    maxLength: 200,
  }),
});

interface Charged {
  readonly atMs: number;
  readonly amount: number;
}

type Arrivals = typeof arrivals extends fc.Arbitrary<infer T> ? T : never;

/** A window that is charged with all arrivals, whatever the limit, and the time of the last one. */
function chargeAll({ startMs, steps }: Arrivals) {
  const window = new SlidingWindow();
  let atMs = startMs;
  for (const { afterMs, amount } of steps) {
    atMs += afterMs;
    window.add(atMs, amount);
  }
  return { window, atMs };
}

/** The arrivals that a limiter admits. */
function admitAll({ startMs, limit, steps }: Arrivals): Charged[] {
  const window = new SlidingWindow();
  const charged: Charged[] = [];
  let atMs = startMs;
  for (const { afterMs, amount } of steps) {
    atMs += afterMs;
    if (window.waitMs(atMs, amount, limit) !== 0) continue;
    window.add(atMs, amount);
    charged.push({ atMs, amount });
  }
  return charged;
}

describe("SlidingWindow", () => {
  it("admits at most the limit in any 60 seconds (state RL-3)", () => {
    fc.assert(
      fc.property(arrivals, (input) => {
        const charged = admitAll(input);
        for (const { atMs: fromMs } of charged) {
          const inWindow = charged.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + 60_000);
          expect(inWindow.reduce((sum, { amount }) => sum + amount, 0)).toBeLessThanOrEqual(input.limit);
        }
      }),
    );
  });

  it("the whole limit is available 65 seconds after the last charge (state RL-4)", () => {
    fc.assert(
      fc.property(arrivals, (input) => {
        const { window, atMs } = chargeAll(input);
        expect(window.waitMs(atMs + 65_000, input.limit, input.limit)).toBe(0);
        expect(window.used(atMs + 65_000)).toBe(0);
      }),
    );
  });

  it("a caller that never pauses gets at least 12/13 of the limit (state RL-4)", () => {
    const limit = 130;
    const window = new SlidingWindow();
    const minutes = 65;
    let admitted = 0;
    for (let atMs = 0; atMs < minutes * 60_000; atMs += 100) {
      if (window.waitMs(atMs, 1, limit) !== 0) continue;
      window.add(atMs, 1);
      admitted += 1;
    }
    expect(admitted / minutes).toBeGreaterThanOrEqual((limit * 12) / 13);
    expect(admitted / minutes).toBeLessThanOrEqual(limit);
  });

  it("a request after the reported wait fits, and a millisecond earlier it does not (state RL-10)", () => {
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 50 }), (input, wanted) => {
        const amount = Math.min(wanted, input.limit);
        const { window, atMs } = chargeAll(input);
        const waitMs = window.waitMs(atMs, amount, input.limit) ?? Number.NaN;
        if (waitMs > 0) expect(window.waitMs(atMs + waitMs - 1, amount, input.limit)).toBe(1);
        expect(window.waitMs(atMs + waitMs, amount, input.limit)).toBe(0);
        expect(waitMs).toBeLessThanOrEqual(65_000);
      }),
    );
  });

  it("rounds a wait up to whole milliseconds (state RL-10)", () => {
    const window = new SlidingWindow();
    window.add(0, 1);
    expect(window.waitMs(0.25, 1, 1)).toBe(65_000);
    expect(window.waitMs(64_999.25, 1, 1)).toBe(1);
    expect(window.waitMs(65_000, 1, 1)).toBe(0);
  });

  it("a request larger than the limit has no wait (state RL-8)", () => {
    expect(new SlidingWindow().waitMs(0, 11, 10)).toBeNull();
    expect(new SlidingWindow().waitMs(0, 10, 10)).toBe(0);
  });

  it("reports the time until the newest charge expires", () => {
    const window = new SlidingWindow();
    expect(window.resetMs(1_000)).toBe(0);
    window.add(1_000, 1);
    window.add(12_000, 1);
    expect(window.resetMs(12_000)).toBe(63_000);
    expect(window.resetMs(74_999)).toBe(1);
    expect(window.resetMs(75_000)).toBe(0);
  });

  describe("corrections (state RL-6)", () => {
    it("a refund is subtracted from the bucket of the charge and expires with it", () => {
      const window = new SlidingWindow();
      const bucket = window.add(1_000, 100);
      window.add(30_000, 10);
      window.correct(bucket, -70, 40_000);
      expect(window.used(40_000)).toBe(40);
      expect(window.used(65_000)).toBe(10);
    });

    it("a refund of an expired charge has no effect", () => {
      const window = new SlidingWindow();
      const bucket = window.add(1_000, 100);
      window.add(70_000, 10);
      window.correct(bucket, -70, 70_000);
      expect(window.used(70_000)).toBe(10);
    });

    it("additional use is charged to the bucket of the charge, or to the current bucket if that one has expired", () => {
      const window = new SlidingWindow();
      const bucket = window.add(1_000, 100);
      window.correct(bucket, 5, 60_000);
      expect(window.used(60_000)).toBe(105);
      window.correct(bucket, 7, 66_000);
      expect(window.used(66_000)).toBe(7);
      expect(window.used(129_999)).toBe(7);
      expect(window.used(130_000)).toBe(0);
    });

    it("a correction never makes the use negative", () => {
      const window = new SlidingWindow();
      window.correct(window.add(1_000, 10), -20, 1_000);
      expect(window.used(1_000)).toBe(0);
    });
  });
});
