import { describe, expect, it } from "vitest";
import { limitHeaders } from "../../../../src/domain/metering/limit-response.js";

const owner = { kind: "key", id: "key_1" } as const;
const requests = { owner, limit: 60, remaining: 59, resetMs: 65_000 };
const tokens = { owner, limit: 10_000, remaining: 0, resetMs: 6_059.2 };

describe("limitHeaders", () => {
  it("has three headers for requests and three for tokens, in plain integers and Go durations (wire RL-1)", () => {
    expect(limitHeaders({ limits: { requests, tokens }, degraded: false })).toEqual({
      "x-ratelimit-limit-requests": "60",
      "x-ratelimit-remaining-requests": "59",
      "x-ratelimit-reset-requests": "1m5s",
      "x-ratelimit-limit-tokens": "10000",
      "x-ratelimit-remaining-tokens": "0",
      "x-ratelimit-reset-tokens": "6.06s",
    });
  });

  it("has no headers for a dimension without a limit (wire RL-1)", () => {
    expect(Object.keys(limitHeaders({ limits: { requests }, degraded: false }))).toHaveLength(3);
    expect(limitHeaders({ limits: {}, degraded: false })).toEqual({});
    expect(limitHeaders({ degraded: false })).toEqual({});
  });

  it("reports that the limits were decided without the store, even if nothing is limited", () => {
    expect(limitHeaders({ degraded: true })).toEqual({ "x-ratelimit-degraded": "1" });
    expect(limitHeaders({ limits: { requests }, degraded: true })).toMatchObject({ "x-ratelimit-degraded": "1" });
  });
});
