import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Buckets, bounds } from "../../../../src/telemetry/metrics/call-metrics.js";

describe("Buckets", () => {
  it("count a value in the first bound that it does not exceed, and values above all bounds separately", () => {
    const buckets = new Buckets([1, 2, 5]);
    for (const seconds of [0, 1, 1.5, 2, 5, 5.1, 100]) buckets.observe(seconds);
    expect(buckets.upTo([1, 2, 5])).toEqual([2, 4, 5]);
    expect(buckets.count).toBe(7);
    expect(buckets.sum).toBeCloseTo(114.6);
  });

  it("return correct counts for fewer bounds", () => {
    const buckets = new Buckets([1, 2, 5]);
    for (const seconds of [0.5, 1.5, 3]) buckets.observe(seconds);
    expect(buckets.upTo([1, 5])).toEqual([1, 3]);
  });

  it("have the same counts when they are added up as if one object had observed all values", () => {
    fc.assert(
      fc.property(fc.array(fc.float({ min: 0, max: 3000, noNaN: true })), fc.nat(), (values, cut) => {
        const [first, second, both] = [
          new Buckets(bounds.duration),
          new Buckets(bounds.duration),
          new Buckets(bounds.duration),
        ];
        for (const [i, value] of values.entries()) {
          (i < cut ? first : second).observe(value);
          both.observe(value);
        }
        first.add(second);
        expect(first.upTo(bounds.duration)).toEqual(both.upTo(bounds.duration));
        expect(first.count).toBe(values.length);
      }),
    );
  });
});

describe("the bounds of histograms", () => {
  it("ascend, and those of this service include those of OpenTelemetry's conventions", () => {
    for (const list of Object.values(bounds)) expect(list).toEqual([...new Set(list)].sort((a, b) => a - b));
    expect(bounds.genAiDuration.at(0)).toBe(0.01);
    expect(bounds.genAiDuration.at(-1)).toBe(81.92);
    expect(bounds.duration).toEqual(expect.arrayContaining(bounds.genAiDuration));
    expect(bounds.tokenGap).toEqual(expect.arrayContaining(bounds.genAiTokenGap));
  });

  it("yield quantiles as if the values of a bucket were spread evenly in it", () => {
    const buckets = new Buckets([1, 2, 5]);
    expect(buckets.quantile(0.5)).toBe(0);
    for (const seconds of [0.5, 1.5, 1.6, 1.7]) buckets.observe(seconds);
    expect(buckets.quantile(0.25)).toBe(1);
    expect(buckets.quantile(0.5)).toBeCloseTo(1.333);
    expect(buckets.quantile(1)).toBe(2);
    buckets.observe(100);
    expect(buckets.quantile(1)).toBe(5);
  });

  it("yield a quantile in the same bucket as the exact quantile", () => {
    const values = fc.array(fc.float({ min: 0, max: 300, noNaN: true }), { minLength: 1 });
    fc.assert(
      fc.property(values, fc.constantFrom(0.5, 0.95, 0.99), (seconds, share) => {
        const buckets = new Buckets(bounds.duration);
        for (const value of seconds) buckets.observe(value);
        const exact = seconds.sort((a, b) => a - b)[Math.ceil(share * seconds.length) - 1] ?? 0;
        const high = bounds.duration.find((bound) => exact <= bound) ?? 0;
        const low = bounds.duration[bounds.duration.indexOf(high) - 1] ?? 0;
        expect(buckets.quantile(share)).toBeGreaterThanOrEqual(low);
        expect(buckets.quantile(share)).toBeLessThanOrEqual(high);
      }),
    );
  });
});
