import { describe, expect, it } from "vitest";
import type { UsageBucketJson } from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { barsOf, rowsOf, totalsOf } from "../../../src/dashboard/pages/usage/sums.js";

const buckets: readonly UsageBucketJson[] = [
  { startTime: "day 1", endTime: "day 2", results: [{ model: "a", requests: "2", promptTokens: "10" }] },
  { startTime: "day 2", endTime: "day 3" },
  {
    startTime: "day 3",
    endTime: "now",
    results: [
      { model: "a", requests: "1", completionTokens: "5" },
      { model: "b", requests: "9", costNanoDollars: "7" },
    ],
  },
];

describe("aggregated usage", () => {
  it("has a row per group that was used, and none for empty buckets", () => {
    expect(rowsOf(buckets).map(({ startTime, model, requests }) => [startTime, model, requests])).toEqual([
      ["day 1", "a", 2],
      ["day 3", "a", 1],
      ["day 3", "b", 9],
    ]);
  });

  it("has totals over time, sorted by the metric, the largest first", () => {
    expect(totalsOf(rowsOf(buckets), "tokens")).toMatchObject([
      { model: "a", requests: 3, promptTokens: 10, completionTokens: 5, startTime: "day 1", endTime: "now" },
      { model: "b", requests: 9 },
    ]);
    expect(totalsOf(rowsOf(buckets), "requests").map(({ model }) => model)).toEqual(["b", "a"]);
  });

  it("has bars with a value for every bucket, including empty ones", () => {
    expect(barsOf(buckets, "requests", ({ model }) => model)).toEqual([
      { label: "b", values: [0, 0, 9] },
      { label: "a", values: [2, 0, 1] },
    ]);
  });

  it("combines all but the six largest groups when there are more than seven", () => {
    const results = Array.from({ length: 9 }, (_none, index) => ({ model: `m${index}`, requests: String(10 - index) }));
    const bars = barsOf([{ startTime: "day", results }], "requests", ({ model }) => model);
    expect(bars.map(({ label }) => label)).toEqual(["m0", "m1", "m2", "m3", "m4", "m5", "Other"]);
    expect(bars.at(-1)?.values).toEqual([4 + 3 + 2]);
  });
});
