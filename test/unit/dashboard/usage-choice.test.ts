import { describe, expect, it } from "vitest";
import { choiceOf, queryOf } from "../../../src/dashboard/pages/usage/choice.js";
import { whenOf } from "../../../src/dashboard/pages/usage/range.js";

const nowMs = Date.parse("2026-11-21T10:30:00Z");

describe("what the usage page is asked to show", () => {
  it("is a week by model unless the address says otherwise, and nonsense in it counts as not said", () => {
    const usual = { account: "", range: "7d", from: "2026-11-15", to: "2026-11-21", by: "model", of: "tokens" };
    expect(choiceOf(new URLSearchParams(), nowMs)).toEqual(usual);
    expect(choiceOf(new URLSearchParams("range=x&by=constructor&of=&from=2026-99-99"), nowMs)).toEqual(usual);
  });

  it("goes into an address and comes out of it the same", () => {
    const query = { account: "acme", range: "days", from: "2026-01-02", to: "2026-02-03", by: "key", of: "cost" };
    const choice = choiceOf(new URLSearchParams(query), nowMs);
    expect(choiceOf(new URLSearchParams(queryOf(choice)), nowMs)).toEqual(choice);
  });

  it("asks for whole days of UTC, the last one included", () => {
    expect(whenOf({ name: "days", from: "2026-01-02", to: "2026-02-03" }, nowMs)).toEqual({
      bucketWidth: "BUCKET_WIDTH_DAY",
      pageSize: 31,
      startTime: "2026-01-02T00:00:00.000Z",
      endTime: "2026-02-04T00:00:00.000Z",
    });
    expect(whenOf({ name: "24h", from: "", to: "" }, nowMs)).toEqual({
      bucketWidth: "BUCKET_WIDTH_HOUR",
      pageSize: 24,
    });
  });
});
