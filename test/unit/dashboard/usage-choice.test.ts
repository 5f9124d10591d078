import { describe, expect, it } from "vitest";
import { choiceOf, queryOf, whenOf } from "../../../src/dashboard/pages/usage/choice.js";

const nowMs = Date.parse("2026-11-21T10:30:00Z");

describe("the choices of the usage page", () => {
  it("default to a week by model, also for invalid URL parameters", () => {
    const usual = { account: "", range: "7d", from: "2026-11-15", to: "2026-11-21", by: "model", of: "tokens" };
    expect(choiceOf(new URLSearchParams(), nowMs)).toEqual(usual);
    expect(choiceOf(new URLSearchParams("range=x&by=constructor&of=&from=2026-99-99"), nowMs)).toEqual(usual);
  });

  it("stay the same when written to the URL and read again", () => {
    const query = { account: "acme", range: "days", from: "2026-01-02", to: "2026-02-03", by: "key", of: "cost" };
    const choice = choiceOf(new URLSearchParams(query), nowMs);
    expect(choiceOf(new URLSearchParams(queryOf(choice)), nowMs)).toEqual(choice);
  });

  it("query whole UTC days, including the last one", () => {
    expect(whenOf({ range: "days", from: "2026-01-02", to: "2026-02-03" }, nowMs)).toEqual({
      bucketWidth: "BUCKET_WIDTH_DAY",
      pageSize: 31,
      startTime: "2026-01-02T00:00:00.000Z",
      endTime: "2026-02-04T00:00:00.000Z",
    });
    expect(whenOf({ range: "24h", from: "", to: "" }, nowMs)).toEqual({
      bucketWidth: "BUCKET_WIDTH_HOUR",
      pageSize: 24,
    });
  });
});
