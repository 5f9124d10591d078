import { describe, expect, it } from "vitest";
import { draftOf, limitOf, newDraft, percentsOf } from "../../../src/dashboard/pages/usage/threshold-draft.js";
import { standingOf, titleOf } from "../../../src/dashboard/pages/usage/threshold-words.js";

describe("a threshold in words", () => {
  it.each([
    ["0", "Below 50 %", "good"],
    ["499", "Below 50 %", "good"],
    ["500", "50 % reached", "busy"],
    ["999", "80 % reached", "busy"],
    ["1000", "Limit reached", "bad"],
  ])("with %s of 1,000 used: %s", (used, text, tone) => {
    expect(standingOf({ used, limit: "1000", percents: [50, 80, 100] })).toEqual({ tone, text });
  });

  it("says of a budget that requests are refused", () => {
    const { text } = standingOf({ used: "11", limit: "10", percents: [100], action: "ACTION_REFUSE" });
    expect(text).toBe("Spent: requests are refused");
  });

  it("has the unit of what is counted", () => {
    expect(titleOf({ metric: "METRIC_COST", limit: "2500000000", period: "PERIOD_DAY" })).toBe("$2.50 a day (UTC)");
  });
});

describe("what is typed into the form of a threshold", () => {
  it("is dollars for money and whole numbers for all else", () => {
    expect(limitOf({ ...newDraft, metric: "METRIC_COST", limit: "2.5" })).toBe("2500000000");
    expect(limitOf({ ...newDraft, limit: "1000" })).toBe("1000");
    for (const limit of ["", "0", "-1", "1.5", "many"]) expect(() => limitOf({ ...newDraft, limit })).toThrow("limit");
  });

  it("is shares in any order, once each", () => {
    expect(percentsOf({ ...newDraft, percents: "100, 50 %;80 50" })).toEqual([50, 80, 100]);
    for (const percents of ["", "0", "101", "x"]) {
      expect(() => percentsOf({ ...newDraft, percents })).toThrow("Shares");
    }
  });

  it("begins with what holds", () => {
    const draft = draftOf({ metric: "METRIC_COST", limit: "2500000000", percents: [50, 100] });
    expect(draft).toMatchObject({ metric: "METRIC_COST", limit: "2.5", percents: "50, 100" });
  });
});
