import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDuration, parseDuration } from "../../../../src/app/config/setting-types.js";

describe("durations", () => {
  it("reads one whole number and one unit", () => {
    expect(["250ms", "30s", "2m", "5h", "30d", "0s"].map(parseDuration)).toEqual([
      250, 30_000, 120_000, 18_000_000, 2_592_000_000, 0,
    ]);
  });

  it("rejects a duration without unit, or with sign, fraction or space", () => {
    for (const text of ["", "5", "-1s", "1.5s", "1 s", "s", "1m30s", "01s", "1S"])
      expect(parseDuration(text)).toBeNull();
  });

  it("formats every duration so that it parses to the same", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });
});
