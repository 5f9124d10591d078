import { describe, expect, it } from "vitest";
import { goDuration } from "../../../../src/domain/metering/limit-response.js";

describe("goDuration", () => {
  it.each([
    [0, "0s"],
    [12, "12ms"],
    [999, "999ms"],
    [1_000, "1s"],
    [1_001, "1.001s"],
    [7_660, "7.66s"],
    [59_700, "59.7s"],
    [60_000, "1m0s"],
    [60_010, "1m0.01s"],
    [179_560, "2m59.56s"],
    [360_000, "6m0s"],
    [3_600_000, "1h0m0s"],
    [3_661_500, "1h1m1.5s"],
  ])("%i ms are %s (wire RL-2)", (ms, text) => {
    expect(goDuration(ms)).toBe(text);
  });
});
