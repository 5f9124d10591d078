import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBase62 } from "../../../../src/domain/access/api-key.js";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

function fromBase62(text: string): bigint {
  return [...text].reduce((value, character) => value * 62n + BigInt(alphabet.indexOf(character)), 0n);
}

describe("toBase62", () => {
  it("writes any 256-bit number as 43 characters that can be decoded", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }), (value) => {
        const text = toBase62(value, 43);
        expect(text).toMatch(/^[0-9A-Za-z]{43}$/);
        expect(fromBase62(text)).toBe(value);
      }),
    );
  });

  it("pads with zeros", () => {
    expect(toBase62(0n, 3)).toBe("000");
    expect(toBase62(61n, 3)).toBe("00z");
    expect(toBase62(62n, 3)).toBe("010");
  });

  it("rejects numbers that do not fit", () => {
    expect(() => toBase62(62n ** 3n, 3)).toThrow(RangeError);
    expect(() => toBase62(-1n, 3)).toThrow(RangeError);
  });
});
