import { describe, expect, it } from "vitest";
import type { SystemJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { afterReading, byMinute, type History, noHistory } from "../../../src/dashboard/pages/overview/history.js";

const startMs = Date.parse("2026-11-21T10:00:00Z");

function statusAt(seconds: number, more: Partial<SystemJson> = {}): SystemJson {
  return {
    startedAt: "2026-11-21T09:00:00Z",
    now: new Date(startMs + seconds * 1_000).toISOString(),
    counters: { requests: String(seconds * 3), failed: String(seconds / 2) },
    models: [{ id: "a", running: 1, waiting: 2, producedTokens: String(seconds * 10) }],
    ...more,
  };
}

function historyOf(...readings: readonly SystemJson[]): History {
  return readings.reduce(afterReading, noHistory);
}

describe("the overview history", () => {
  it("computes requests and tokens per second with the service's clock", () => {
    const { points } = historyOf(statusAt(10), statusAt(14));
    expect(points).toEqual([
      {
        atMs: startMs + 14_000,
        requestsPerSecond: 3,
        tokensPerSecond: 10,
        ended: 12,
        failed: 2,
        rejected: 0,
        running: 1,
        waiting: 2,
      },
    ]);
  });

  it("adds no point across a restart of the service", () => {
    const again = statusAt(14, { startedAt: "2026-11-21T10:00:13Z", counters: { requests: "1" } });
    expect(historyOf(statusAt(10), again).points).toEqual([]);
    expect(historyOf(statusAt(10), again, { ...again, now: statusAt(16).now ?? "" }).points).toHaveLength(1);
  });

  it("ignores a reading that is not later than the previous one", () => {
    expect(historyOf(statusAt(10), statusAt(10)).points).toEqual([]);
  });

  it("counts tokens from zero after a model was reloaded", () => {
    const models = [{ id: "a", producedTokens: "6" }];
    expect(historyOf(statusAt(10), statusAt(12, { models })).points[0]?.tokensPerSecond).toBe(3);
  });

  it("drops points older than five minutes", () => {
    const { points } = historyOf(...Array.from({ length: 400 }, (_none, index) => statusAt(index * 2)));
    expect(points).toHaveLength(150);
  });

  it("aggregates by minute, newest first", () => {
    const { points } = historyOf(statusAt(0), statusAt(30), statusAt(50), statusAt(70));
    expect(byMinute(points)).toMatchObject([
      { startMs: startMs + 60_000, requestsPerSecond: 3, failed: 10, mostRunning: 1, mostWaiting: 2 },
      { startMs, requestsPerSecond: 3, failed: 25 },
    ]);
  });
});
