import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { float32CharsMax, writeFloat32 } from "../../../../src/transports/openai/embeddings.js";

function float32Text(value: number): string {
  const bytes = Buffer.alloc(float32CharsMax);
  return bytes.toString("latin1", 0, writeFloat32(bytes, 0, value));
}

describe("text of a float32", () => {
  it("is the shortest decimal that parses to the same value, for values between 0.000001 and 1", () => {
    fc.assert(
      fc.property(fc.float({ min: Math.fround(1e-6), max: 1, maxExcluded: true, noNaN: true }), (value) => {
        const digits = (text: string) => text.replace(/^0\.0*/, "").length;
        const shortest = [1, 2, 3, 4, 5, 6, 7, 8, 9].find((n) => Math.fround(Number(value.toPrecision(n))) === value);
        expect(digits(float32Text(value))).toBeLessThanOrEqual(Math.max(shortest ?? 9, 1));
      }),
      { numRuns: 2_000 },
    );
  });

  it("parses to the same float32, for any value (EMB-7)", () => {
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
    [0.99999994, "0.99999994"],
    [0.000001, "0.000001"],
    [1.2345679e-6, "0.0000012345679"],
    [9.9999997e-7, "0.000001"],
    [-0.0078125, "-0.0078125"],
    [-1.1754943508222875e-38, "-1.1754944e-38"],
    [3.4028234663852886e38, "3.4028235e+38"],
    [1.401298464324817e-45, "1e-45"],
  ])("of %d is %s", (value, text) => {
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
