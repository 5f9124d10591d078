import { describe, expect, it } from "vitest";
import type { SystemJson } from "../../../gen/unified/admin/v1/system_pb.js";
import {
  errorShare,
  historyOf,
  outputRate,
  rangeOf,
  rate,
  requestsNow,
} from "../../../src/dashboard/pages/overview/history.js";

const point = (startTime: string, endTime: string, counters = {}, latencies: object[] = []) => ({
  startTime,
  endTime,
  counters,
  latencies,
});
const [ten, tenOne, tenTwo] = ["2026-11-21T10:00:00Z", "2026-11-21T10:01:00Z", "2026-11-21T10:02:00Z"];

describe("the history of the overview", () => {
  it("contains counters, cost and the measured latencies", () => {
    const latencies = [{ name: "request", count: "4", p50Ms: 100, p95Ms: 300 }, { name: "time_to_first_token" }];
    const first = point(ten, tenOne, { requests: "120", failed: "3", costNanoDollars: "5000" }, latencies);
    const { rows, total } = historyOf({ points: [first, point(tenOne, tenTwo)], total: point(ten, tenTwo) });
    expect(rows[0]).toMatchObject({
      startMs: Date.parse(ten),
      requests: 120,
      failed: 3,
      rejected: 0,
      costNano: 5_000,
      duration: { p50: 100, p95: 300 },
      firstToken: null,
    });
    expect([rows.length, total.endMs]).toEqual([2, Date.parse(tenTwo)]);
  });

  it("has rates per second, and none for an interval that has just begun", () => {
    const { rows } = historyOf({
      points: [point(ten, tenOne, { requests: "120" }), point(tenOne, "2026-11-21T10:01:02Z", { requests: "1" })],
    });
    expect(rows.map((row) => rate(row, row.requests))).toEqual([2, null]);
  });

  it("has the share of failed requests, and none without requests", () => {
    const shareOf = (counters: object) => errorShare(historyOf({ total: point(ten, tenOne, counters) }).total);
    expect(shareOf({ requests: "8", failed: "2", rejected: "3" })).toBe(0.25);
    expect(shareOf({})).toBeNull();
  });

  it("covers an hour by default, also for unknown ranges in the URL", () => {
    expect([null, "24h", "7d", "constructor"].map(rangeOf)).toEqual(["1h", "24h", "7d", "1h"]);
  });
});

const startMs = Date.parse(ten);

function statusAt(seconds: number, models: SystemJson["models"], startedAt = ten): SystemJson {
  return { startedAt, now: new Date(startMs + seconds * 1_000).toISOString(), models: models ?? [] };
}

describe("figures of two readings of the service", () => {
  it("contain the output tokens per second of all models, also if a model was loaded again", () => {
    const before = statusAt(2, [
      { id: "a", producedTokens: "100" },
      { id: "b", producedTokens: "50" },
    ]);
    const now = statusAt(4, [
      { id: "a", producedTokens: "120" },
      { id: "b", producedTokens: "6" },
      { id: "c", producedTokens: "4" },
    ]);
    expect(outputRate(before, now)).toBe(15);
    expect(outputRate(null, now)).toBeNull();
    expect(outputRate(before, statusAt(4, [], tenOne))).toBeNull();
    expect(outputRate(now, now)).toBeNull();
  });

  it("sum requests and slots over models", () => {
    const models = [
      { id: "a", running: 1, waiting: 2, slots: 4 },
      { id: "b", slots: 1 },
    ];
    expect(requestsNow(statusAt(0, models))).toEqual({ running: 1, waiting: 2, slots: 5 });
  });
});
