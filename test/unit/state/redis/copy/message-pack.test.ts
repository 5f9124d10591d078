import { describe, expect, it } from "vitest";
import { packMessage } from "../../../../../src/state/redis/copy/message-pack.js";

const hex = (value: Parameters<typeof packMessage>[0]) => packMessage(value).toString("hex");

describe("packMessage", () => {
  // The bytes that `redis-cli eval "return cmsgpack.pack(…)" 0` of Redis 7 returns.
  it.each([
    [0, "00"],
    [127, "7f"],
    [128, "cc80"],
    [256, "cd0100"],
    [65_536, "ce00010000"],
    [1_795_472_601_676_001, "cf000660f90aa078e1"],
    ["", "a0"],
    ["日本", "a6e697a5e69cac"],
    ["x".repeat(31), `bf${"78".repeat(31)}`],
    ["x".repeat(32), `d920${"78".repeat(32)}`],
    ["x".repeat(256), `da0100${"78".repeat(256)}`],
    [[], "90"],
    [["p", 1, ["a"]], "93a1700191a161"],
    [Array<number>(16).fill(1), `dc0010${"01".repeat(16)}`],
  ])("encodes %j in the same bytes as Redis", (value, expected) => {
    expect(hex(value)).toBe(expected);
  });

  it("throws for numbers that are not an integer from 0 to 2^53", () => {
    for (const value of [-1, 0.5, 2 ** 53]) expect(() => packMessage(value)).toThrow(RangeError);
  });
});
