import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { type AccountedRequest, Accounting, type RequestEnd } from "../../../../src/domain/metering/accounting.js";

const nowMs = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const prices = [{ fromMs: 0, input: 10, cachedInput: 1, output: 20 }];

function accounting(hasEndpoints = true): Accounting {
  return new Accounting({
    thresholds: { thresholdsOf: () => [], budgetsOf: () => [] },
    endpoints: { mayHaveAny: () => hasEndpoints },
    now: () => nowMs,
  });
}

const request: AccountedRequest = {
  requestId: "req_1",
  account: "a",
  keyId: "key_1",
  operation: "create_chat_completion",
  model: { id: "m", prices },
  degraded: false,
};
const usage = { promptTokens: 10, completionTokens: 5, cachedTokens: 4, reasoningTokens: 0 };

function end(change: Partial<RequestEnd> = {}): RequestEnd {
  return { why: "completed", error: null, usage, latencyMs: 12.6, ...change };
}

const body = (ending: RequestEnd) => {
  const { event } = accounting().settlementOf(request, ending);
  return event === null ? null : (JSON.parse(event.body) as Record<string, unknown>);
};

describe("Accounting", () => {
  it("request.completed has the seven documented fields and no other (WH-8)", () => {
    expect(body(end())).toEqual({
      id: expect.stringMatching(/^evt_[0-9a-f]{32}$/) as string,
      type: "request.completed",
      created_at: "2026-01-02T03:04:05.678Z",
      data: {
        request_id: "req_1",
        model: "m",
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 15,
        latency_ms: 13,
        status: "completed",
      },
    });
  });

  it("a count of tokens has no event (ANT-6)", () => {
    const counted = { ...request, operation: "count_tokens" } as const;
    expect(accounting().settlementOf(counted, end()).event).toBeNull();
  });

  it("request.failed contains the error that was sent to the caller (WH-9)", () => {
    const error = new ServiceError("upstream_error", "The engine failed.", {
      cause: new Error("secret of the engine"),
    });
    expect(body(end({ why: "failed", error }))).toMatchObject({
      type: "request.failed",
      data: {
        status: "failed",
        error: { type: "server_error", code: "upstream_error", message: "The engine failed." },
      },
    });
    expect(JSON.stringify(body(end({ why: "failed", error })))).not.toContain("secret of the engine");
  });

  it.each(["client_left", "stalled", "key_revoked"] as const)(
    "a request that ended as %s creates no event (WH-9)",
    (why) => {
      expect(body(end({ why, error: new ServiceError("client_closed_request", "x") }))).toBeNull();
    },
  );

  it("a repeated settlement has the same event id; completed and failed have different ones (WH-11)", () => {
    const ids = [end(), end(), end({ why: "failed", error: new ServiceError("internal_error", "x") })].map(
      (ending) => accounting().settlementOf(request, ending).event?.id,
    );
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).not.toBe(ids[0]);
  });

  it("drafts no event for an account that certainly has no endpoint", () => {
    expect(accounting(false).settlementOf(request, end()).event).toBeNull();
  });

  it("the cost uses the prices at the time of the settlement (USE-8)", () => {
    expect(accounting().settlementOf(request, end()).costNano).toBe(6 * 10 + 4 + 5 * 20);
    expect(accounting().costOf({ prices }, 7, 3)).toBe(7 * 10 + 3 * 20);
    expect(accounting().costOf({ prices: [] }, 7, 3)).toBe(0);
  });

  it("an engine that fails before its first token costs no tokens (state RL-14)", () => {
    const error = new ServiceError("upstream_error", "x");
    const nothing = { ...usage, completionTokens: 0 };
    const settled = accounting().settlementOf(request, end({ why: "failed", error, usage: nothing }));
    expect(settled).toMatchObject({ promptTokens: 0, completionTokens: 0, costNano: 0 });
    expect(accounting().settlementOf(request, end({ why: "client_left", usage: nothing }))).toMatchObject({
      promptTokens: 10,
    });
  });

  it("a lost request is settled with its known usage and fails as replica_lost (USE-13)", () => {
    const lost = { ...request, model: "m", admittedAtMs: nowMs - 60_000, promptTokens: 3, completionTokens: 2 };
    const settlement = accounting().settlementOfLost(lost, { prices });
    expect(settlement).toMatchObject({
      why: "failed",
      promptTokens: 3,
      completionTokens: 2,
      costNano: 70,
      latencyMs: 60_000,
    });
    expect(JSON.parse(settlement.event?.body ?? "{}")).toMatchObject({ data: { error: { code: "replica_lost" } } });
    expect(accounting().settlementOfLost(lost, null).costNano).toBe(0);
  });
});
