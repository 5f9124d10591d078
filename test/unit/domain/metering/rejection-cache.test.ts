import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { LimitRefusal, Refused } from "../../../../src/domain/metering/ledger.js";
import { RejectionCache } from "../../../../src/domain/metering/limit-response.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { keyHolder } from "./limits-fixture.js";

const owner = { kind: "key", id: "key_1" } as const;
const refused = (fields: Partial<LimitRefusal> = {}): Refused => ({
  admitted: false,
  refusal: { which: "requests", owner, limit: 2, used: 2, requested: 1, retryAfterMs: 30_000, ...fields },
  snapshot: { requests: { owner, limit: 2, remaining: 0, resetMs: 40_000 } },
  degraded: false,
});

function open(refusal: Refused = refused()) {
  const clock = new FakeClock();
  const rejections = new RejectionCache(clock);
  rejections.note(refusal);
  const check = (operation: "create_completion" | "list_models" = "create_completion", caller = keyHolder()) => {
    try {
      rejections.check(operation, caller);
      return null;
    } catch (thrown) {
      if (thrown instanceof ServiceError) return thrown;
      throw thrown;
    }
  };
  return { clock, rejections, check };
}

describe("a caller known to be over a request limit", () => {
  it("is rejected without a store call, with the remaining wait, and checked by the store again after a second", () => {
    const { clock, check } = open();
    clock.advance(400);
    expect(check()).toMatchObject({
      code: "rate_limit_exceeded",
      retryAfterMs: 29_600,
      limits: { requests: { remaining: 0, resetMs: 39_600 } },
    });
    clock.advance(600);
    expect(check()).toBeNull();
  });

  it("is admitted when the wait is over", () => {
    const { clock, check } = open(refused({ retryAfterMs: 5 }));
    clock.advance(4);
    expect(check()).not.toBeNull();
    clock.advance(1);
    expect(check()).toBeNull();
  });

  it("does not affect other keys, unless the limit of the whole account was exceeded", () => {
    const other = { ...keyHolder(), keyId: "key_2" };
    expect(open().check("create_completion", other)).toBeNull();
    const { check } = open(refused({ owner: { kind: "account", id: "a" } }));
    expect(check("create_completion", other)).not.toBeNull();
    expect(check("create_completion", { ...other, account: "b" })).toBeNull();
  });

  it("may list models (state RL-13)", () => {
    expect(open().check("list_models")).toBeNull();
  });

  it("is removed from the cache when limits change", () => {
    const { rejections, check } = open();
    rejections.clear();
    expect(check()).toBeNull();
  });

  it.each([
    ["a token limit, whose tokens are released when a request ends", refused({ which: "tokens" })],
    ["a concurrency limit, which frees up when a request ends", refused({ which: "concurrency" })],
    ["a model limit, because the model is in the body", refused({ owner: { kind: "model", id: "m" } })],
    ["a share of a limit, which applies only during the outage", { ...refused(), degraded: true }],
  ])("is not cached for %s", (_what, refusal) => {
    expect(open(refusal).check()).toBeNull();
  });
});
