import { describe, expect, it } from "vitest";
import { rateLimitSettings, toRateLimitDefaults } from "../../../../src/app/config/limits-settings.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";

describe("settings of rate_limits", () => {
  it("set no limits by default", () => {
    expect(toRateLimitDefaults(rateLimitSettings.parse({}))).toEqual({
      key: unlimited,
      account: unlimited,
      models: new Map(),
    });
  });

  it("set limits for keys, accounts and models independently (state RL-1)", () => {
    const settings = rateLimitSettings.parse({
      default_key: { requests_per_minute: 60 },
      default_account: { tokens_per_minute: 100_000, concurrency: null },
      models: { "org/m:1": { concurrency: 4 } },
    });
    expect(toRateLimitDefaults(settings)).toEqual({
      key: { ...unlimited, requestsPerMinute: 60 },
      account: { ...unlimited, tokensPerMinute: 100_000 },
      models: new Map([["org/m:1", { ...unlimited, concurrency: 4 }]]),
    });
  });

  it.each([
    { default_key: { requests_per_minute: 0 } },
    { default_key: { requests_per_second: 1 } },
    { default_account: { tokens_per_minute: 1.5 } },
    { models: { "no model": {} } },
  ])("are rejected: %j", (settings) => {
    expect(rateLimitSettings.safeParse(settings).success).toBe(false);
  });
});
