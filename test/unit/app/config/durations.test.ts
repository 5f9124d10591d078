import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { durationOrOff, formatDuration, parseDuration } from "../../../../src/app/config/setting-types.js";

describe("durations in settings", () => {
  it("are read as one whole number and one unit", () => {
    expect(["250ms", "30s", "2m", "5h", "30d", "0s"].map(parseDuration)).toEqual([
      250, 30_000, 120_000, 18_000_000, 2_592_000_000, 0,
    ]);
  });

  it("are rejected without a unit, or with a sign, fraction or space", () => {
    for (const text of ["", "5", "-1s", "1.5s", "1 s", "s", "1m30s", "01s", "1S"])
      expect(parseDuration(text)).toBeNull();
  });

  it("are written as text that is read as the same duration", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });

  it("may be 0 for off where it is allowed, and are otherwise within the bounds", () => {
    const setting = durationOrOff(60_000, 3_600_000);
    expect([0, "0s", "1m", "1h"].map((written) => setting.parse(written))).toEqual([0, 0, 60_000, 3_600_000]);
    expect(setting.encode(0)).toBe(0);
    expect(setting.encode(60_000)).toBe("1m");
    for (const wrong of ["59s", "61m", 1, true, "x"]) expect(setting.safeParse(wrong).success).toBe(false);
    expect(setting.safeParse("59s").error?.issues[0]?.message).toBe("must be 0 or between 1m and 1h");
  });
});
