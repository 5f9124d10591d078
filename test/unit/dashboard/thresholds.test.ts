import { describe, expect, it } from "vitest";
import {
  draftOf,
  limitOf,
  newDraft,
  percentsOf,
  progressOf,
  titleOf,
} from "../../../src/dashboard/pages/usage/threshold.js";

describe("a threshold as text", () => {
  it.each([
    ["0", "Below 50 %", "good"],
    ["499", "Below 50 %", "good"],
    ["500", "50 % reached", "busy"],
    ["999", "80 % reached", "busy"],
    ["1000", "Limit reached", "bad"],
  ])("with %s of 1,000 used: %s", (used, text, tone) => {
    expect(progressOf({ used, limit: "1000", percents: [50, 80, 100] })).toEqual({ tone, text });
  });

  it("contains that an exceeded budget rejects requests", () => {
    const { text } = progressOf({ used: "11", limit: "10", percents: [100], action: "ACTION_REFUSE" });
    expect(text).toBe("Limit reached: rejecting requests");
  });

  it("has the unit of its metric", () => {
    expect(titleOf({ metric: "METRIC_COST", limit: "2500000000", period: "PERIOD_DAY" })).toBe("$2.50 per day (UTC)");
    expect(titleOf({ metric: "METRIC_TOKENS", limit: "1", period: "PERIOD_MONTH" })).toBe("1 token per month (UTC)");
  });
});

describe("the form of a threshold", () => {
  it("accepts dollars for cost and whole numbers for other metrics", () => {
    expect(limitOf({ ...newDraft, metric: "METRIC_COST", limit: "2.5" })).toBe("2500000000");
    expect(limitOf({ ...newDraft, limit: "1000" })).toBe("1000");
    for (const limit of ["", "0", "-1", "1.5", "many"]) expect(() => limitOf({ ...newDraft, limit })).toThrow("limit");
  });

  it("accepts percentages in any order and removes duplicates", () => {
    expect(percentsOf({ ...newDraft, percents: "100, 50 %;80 50" })).toEqual([50, 80, 100]);
    for (const percents of ["", "0", "101", "x"]) {
      expect(() => percentsOf({ ...newDraft, percents })).toThrow("Percentages");
    }
  });

  it("starts with the current values", () => {
    const draft = draftOf({ metric: "METRIC_COST", limit: "2500000000", percents: [50, 100] });
    expect(draft).toMatchObject({ metric: "METRIC_COST", limit: "2.5", percents: "50, 100" });
  });
});
