import { describe, expect, it } from "vitest";
import { callFigures } from "../../../../src/telemetry/metrics/call-figures.js";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { chatEnd, plainEnd } from "../../../support/call-ends.js";

describe("figures of all calls", () => {
  it("sum inference over models, and count failed, rejected and cancelled requests separately", () => {
    const calls = new CallMetrics();
    calls.callEnded(chatEnd());
    calls.callEnded(chatEnd({ model: "other-model" }));
    calls.callEnded(plainEnd({ code: "internal_error" }));
    calls.callEnded(plainEnd({ code: "invalid_value" }));
    for (const code of ["rate_limit_exceeded", "server_is_overloaded", "invalid_api_key"] as const) {
      calls.callEnded(plainEnd({ code, stage: "opening" }));
    }
    calls.callEnded(plainEnd({ code: "client_closed_request", stage: "queued", clientLeft: true }));
    // These two are no inference, and the end of a watching stream is no cancelled request.
    calls.callEnded(plainEnd({ operation: "list_models", model: null }));
    calls.callEnded(plainEnd({ operation: "list_models", model: null, stage: "watching", clientLeft: true }));
    expect(callFigures(calls).counts()).toEqual({
      requests: 8,
      failed: 1,
      rejected: 3,
      clientLeft: 1,
      promptTokens: 14,
      completionTokens: 20,
    });
  });

  it("have durations of successful requests only, as exact as the buckets", () => {
    const calls = new CallMetrics();
    for (let i = 0; i < 100; i++) calls.callEnded(chatEnd({ durationMs: 100 }));
    for (let i = 0; i < 900; i++) calls.callEnded(plainEnd({ code: "rate_limit_exceeded", durationMs: 0.1 }));
    const [request, firstToken, queue] = callFigures(calls).durations().since(null);
    expect(request).toMatchObject({ name: "request", count: 100 });
    // All 100 ms values are in the bucket of 80 to 160 ms.
    expect(request?.p50Ms).toBeCloseTo(120);
    expect(request?.p99Ms).toBeCloseTo(159.2);
    expect(firstToken).toMatchObject({ name: "time_to_first_token", count: 100 });
    expect(queue).toMatchObject({ name: "queue", count: 100 });
  });

  it("have durations since an earlier reading without earlier calls", () => {
    const calls = new CallMetrics();
    const figures = callFigures(calls);
    for (let i = 0; i < 100; i++) calls.callEnded(chatEnd({ durationMs: 10_000 }));
    const before = figures.durations();
    for (let i = 0; i < 10; i++) calls.callEnded(chatEnd({ durationMs: 100 }));
    const [request] = figures.durations().since(before);
    expect(request).toMatchObject({ name: "request", count: 10 });
    expect(request?.p99Ms).toBeLessThan(200);
  });

  it("are zero before the first call", () => {
    const [request] = callFigures(new CallMetrics()).durations().since(null);
    expect(request).toEqual({ name: "request", count: 0, p50Ms: 0, p95Ms: 0, p99Ms: 0 });
  });
});
