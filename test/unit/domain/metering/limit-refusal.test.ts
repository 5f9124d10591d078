import { describe, expect, it } from "vitest";
import { retryAdvice } from "../../../../src/domain/call/service-error.js";
import type { BudgetRefusal, LimitRefusal } from "../../../../src/domain/metering/ledger.js";
import { errorOfRefusal } from "../../../../src/domain/metering/limit-response.js";

const requests: LimitRefusal = {
  which: "requests",
  owner: { kind: "key", id: "key_1" },
  limit: 60,
  used: 60,
  requested: 1,
  retryAfterMs: 12_340,
};
const errorOf = (refusal: LimitRefusal | BudgetRefusal) => errorOfRefusal({ refusal, degraded: false });

describe("the error for a caller over a limit", () => {
  it("contains the limit, its owner, value and use, the requested amount and the wait (state RL-9)", () => {
    expect(errorOf(requests)).toMatchObject({
      code: "rate_limit_exceeded",
      type: "requests",
      retryAfterMs: 12_340,
      message:
        "Rate limit reached for the requests per minute of this API key: limit 60, used 60, requested 1. Try again in 12.34s.",
    });
    const tokens = errorOf({
      ...requests,
      which: "tokens",
      owner: { kind: "account", id: "a" },
      requested: 900,
      retryAfterMs: 0.5,
    });
    expect(tokens.type).toBe("tokens");
    expect(tokens.message).toContain("tokens per minute of the account 'a': limit 60, used 60, requested 900");
    expect(tokens.message).toContain("Try again in 1ms.");
    const running = errorOf({ ...requests, which: "concurrency", owner: { kind: "model", id: "m" } });
    expect(running.type).toBe("requests");
    expect(running.message).toContain("concurrent requests of the model 'm' in this account");
  });

  it("advises against retrying a request that is larger than the limit (state RL-8, wire RL-5)", () => {
    const error = errorOf({ ...requests, which: "tokens", requested: 61, retryAfterMs: null });
    expect(error).toMatchObject({ code: "rate_limit_exceeded", type: "tokens", shouldRetry: false });
    expect(error.message).toContain("Request too large");
    expect(retryAdvice(error)).toEqual({ waitMs: null, shouldRetry: false });
  });

  it("reports a wait above a minute and advises against retrying (state RL-10, RETRY-2)", () => {
    const error = errorOf({ ...requests, retryAfterMs: 63_000 });
    expect(error.message).toContain("Try again in 1m3s.");
    expect(retryAdvice(error)).toEqual({ waitMs: 63_000, shouldRetry: false });
    expect(retryAdvice(errorOf({ ...requests, retryAfterMs: 60_000 }))).toEqual({ waitMs: 60_000, shouldRetry: null });
  });

  it("says for an exhausted budget that an administrator can raise it (USE-7)", () => {
    const error = errorOf({
      which: "budget",
      thresholdId: "thr_1",
      metric: "tokens",
      limit: 1_000n,
      used: 990n,
      requested: 20n,
      resetsAtMs: Date.UTC(2026, 11, 1),
    });
    expect(error).toMatchObject({ code: "insufficient_quota", type: "insufficient_quota", shouldRetry: false });
    expect(error.message).toBe(
      "The budget thr_1 has no room: limit 1000 tokens, used 990, requested 20. It begins anew at " +
        "2026-12-01T00:00:00.000Z; an administrator can raise it.",
    );
    expect(retryAdvice(error).waitMs).toBeNull();
  });
});
