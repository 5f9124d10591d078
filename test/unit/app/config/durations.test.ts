import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { durationOrOff, formatDuration, parseDuration } from "../../../../src/app/config/setting-types.js";

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

  it("may be 0 for off, written as a number or a time, and are within bounds otherwise", () => {
    const setting = durationOrOff(60_000, 3_600_000);
    expect([0, "0s", "1m", "1h"].map((written) => setting.parse(written))).toEqual([0, 0, 60_000, 3_600_000]);
    expect(setting.encode(0)).toBe(0);
    expect(setting.encode(60_000)).toBe("1m");
    for (const wrong of ["59s", "61m", 1, true, "x"]) expect(setting.safeParse(wrong).success).toBe(false);
    expect(setting.safeParse("59s").error?.issues[0]?.message).toBe("must be 0 or between 1m and 1h");
  });
});
