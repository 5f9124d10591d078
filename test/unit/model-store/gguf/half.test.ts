import { describe, expect, it } from "vitest";
import { fromHalf, toHalf } from "../../../../src/model-store/gguf/format.js";

describe("toHalf", () => {
  it("converts every normal half back unchanged", () => {
    for (let half = 0x0400; half < 0x7c00; half += 1) {
      expect(toHalf(fromHalf(half))).toBe(half);
      expect(toHalf(-fromHalf(half))).toBe(half | 0x8000);
    }
  });

  it("rounds to the nearest normal half, and ties away from zero", () => {
    const step = 2 ** -10;
    expect(toHalf(1 + 0.49 * step)).toBe(0x3c00);
    expect(toHalf(1 + 0.5 * step)).toBe(0x3c01);
    expect(toHalf(-1 - 0.5 * step)).toBe(0xbc01);
    expect(toHalf(1 + 1.5 * step)).toBe(0x3c02);
    expect(toHalf(2 - 0.25 * step)).toBe(0x4000);
  });

  it("keeps zero and its sign, and converts larger numbers to infinity", () => {
    expect([0, -0, 65_504, 65_520, 1e10, -1e10].map(toHalf)).toEqual([0, 0x8000, 0x7bff, 0x7c00, 0x7c00, 0xfc00]);
  });

  it("truncates the mantissa of a value below the smallest normal half and adds one, as in the pinned files", () => {
    const unit = 2 ** -24;
    expect([1, 1.9, 2, 1_022.5].map((count) => toHalf(count * unit))).toEqual([2, 2, 3, 1_023]);
    expect(toHalf(1_023.5 * unit)).toBe(0);
    expect(toHalf(2 ** -26)).toBe(0);
  });
});

describe("fromHalf", () => {
  it("converts subnormals, infinities and NaN", () => {
    expect([0x0001, 0x03ff, 0x8001].map(fromHalf)).toEqual([2 ** -24, 1_023 * 2 ** -24, -(2 ** -24)]);
    expect([0x7c00, 0xfc00, 0x7e00].map(fromHalf)).toEqual([Infinity, -Infinity, Number.NaN]);
  });
});
