import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { float32Text } from "../../../src/lib/float32-text.js";

describe("text of a float32", () => {
  it("reads back as the same float32, for any of them (EMB-7)", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Math.fround(Number(float32Text(value)))).toBe(value === 0 ? 0 : value);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    [0.1, "0.1"],
    [-0.25, "-0.25"],
    [1, "1"],
    [0, "0"],
    [-0, "0"],
    [1 / 3, "0.33333334"],
    [16777216, "16777216"],
    [3.4028234663852886e38, "3.4028235e+38"],
    [1.401298464324817e-45, "1.4013e-45"],
  ])("%d is written as %s", (value, text) => {
    expect(float32Text(Math.fround(value))).toBe(text);
  });

  it("is JSON", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(typeof JSON.parse(float32Text(value))).toBe("number");
      }),
    );
  });
});
