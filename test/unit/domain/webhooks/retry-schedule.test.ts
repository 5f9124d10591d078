import { describe, expect, it } from "vitest";
import { outcomeOf, shortenDelay } from "../../../../src/domain/webhooks/delivery-attempts.js";
import { settings } from "./dispatch-fixture.js";

const { retryDelaysMs } = settings;
const failed = { status: 500 };
const scheduled = (retriesUsed: number) => ({ retriesUsed, isSingle: false });

describe("outcomeOf", () => {
  it.each([200, 201, 202, 204, 226, 299])("status %i counts as delivered (WH-19)", (status) => {
    expect(outcomeOf(scheduled(0), { status }, retryDelaysMs)).toEqual({ state: "delivered" });
    expect(outcomeOf({ retriesUsed: 5, isSingle: true }, { status }, retryDelaysMs)).toEqual({ state: "delivered" });
  });

  it.each([null, 100, 101, 103, 199, 300, 301, 304, 308, 400, 404, 410, 429, 499, 500, 503, 599, 999])(
    "status %s counts as failed, and the schedule is unchanged (WH-19, WH-28)",
    (status) => {
      expect(outcomeOf(scheduled(0), { status }, retryDelaysMs)).toEqual({ state: "awaiting_retry", delayMs: 30_000 });
    },
  );

  it("returns delays of 30 s, 2 min, 10 min, 30 min and 2 h, and a permanent failure after the fifth retry (WH-25, WH-27)", () => {
    const outcomes = [0, 1, 2, 3, 4, 5].map((retriesUsed) => outcomeOf(scheduled(retriesUsed), failed, retryDelaysMs));
    expect(outcomes).toEqual([
      ...[30, 120, 600, 1_800, 7_200].map((seconds) => ({ state: "awaiting_retry", delayMs: seconds * 1_000 })),
      { state: "permanently_failed", reason: "retries_used_up" },
    ]);
  });

  it("the failure of a single attempt is final, however many retries are left (WH-46)", () => {
    const failure = { state: "permanently_failed", reason: "manual_retry_failed" };
    expect(outcomeOf({ retriesUsed: 5, isSingle: true }, failed, retryDelaysMs)).toEqual(failure);
    expect(outcomeOf({ retriesUsed: 0, isSingle: true }, failed, retryDelaysMs)).toEqual(failure);
  });
});

describe("shortenDelay", () => {
  it("a retry is scheduled from the failure, even if the failure is recorded late (WH-25, WH-26)", () => {
    const retry = { state: "awaiting_retry", delayMs: 30_000 } as const;
    expect(shortenDelay(retry, 0)).toEqual(retry);
    expect(shortenDelay(retry, 0.9)).toEqual(retry);
    expect(shortenDelay(retry, 2_000.9)).toEqual({ ...retry, delayMs: 28_000 });
    expect(shortenDelay(retry, 31_000)).toEqual({ ...retry, delayMs: 0 });
    expect(shortenDelay({ state: "delivered" }, 5)).toEqual({ state: "delivered" });
  });
});
