import { describe, expect, it } from "vitest";
import { CallTimes } from "../../../../src/domain/call/observer.js";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { createMetricsPage } from "../../../../src/telemetry/metrics/metrics-page.js";
import { chatEnd, plainEnd } from "../../../support/call-ends.js";
import { metricsAtRest } from "../../../support/metrics-text.js";

/** Lines of the page that begin with `start`. */
async function linesOf(calls: CallMetrics, start: string): Promise<string[]> {
  const page = createMetricsPage(calls, metricsAtRest);
  return (await page.render()).split("\n").filter((line) => line.startsWith(start));
}

describe("metrics of calls", () => {
  it("show a streamed chat in seconds, by route and model, and in OpenTelemetry's metrics", async () => {
    const calls = new CallMetrics();
    calls.callEnded(chatEnd());
    const labels = 'route="create_chat_completion",model="m"';
    const sums = {
      uis_request_duration_seconds: 0.125,
      uis_time_to_first_token_seconds: 0.03,
      uis_inter_token_latency_seconds: 0.01,
      uis_queue_time_seconds: 0.005,
      uis_overhead_seconds: 0.01,
    };
    for (const [name, sum] of Object.entries(sums)) {
      expect(await linesOf(calls, `${name}_sum`)).toEqual([`${name}_sum{${labels}} ${sum}`]);
      expect(await linesOf(calls, `${name}_count`)).toEqual([`${name}_count{${labels}} 1`]);
    }
    const ofGenAi = 'gen_ai_operation_name="chat",gen_ai_provider_name="unified_inference",gen_ai_request_model="m"';
    for (const [name, sum] of [
      ["gen_ai_server_request_duration_seconds", 0.125],
      ["gen_ai_server_time_to_first_token_seconds", 0.03],
      ["gen_ai_server_time_per_output_token_seconds", 0.01],
    ] as const) {
      expect(await linesOf(calls, `${name}_sum`)).toEqual([`${name}_sum{${ofGenAi}} ${sum}`]);
    }
    expect(await linesOf(calls, "gen_ai_server_request_duration_seconds_bucket")).toHaveLength(15);
    expect(await linesOf(calls, "uis_tokens_total{")).toEqual([
      'uis_tokens_total{model="m",type="prompt"} 7',
      'uis_tokens_total{model="m",type="completion"} 10',
      'uis_tokens_total{model="m",type="cached"} 4',
      'uis_tokens_total{model="m",type="reasoning"} 3',
    ]);
  });

  it("count calls by route, model and code, and count rejections separately from invalid requests", async () => {
    const calls = new CallMetrics();
    calls.callEnded(chatEnd());
    calls.callEnded(chatEnd());
    calls.callEnded(plainEnd({ model: null, code: "invalid_api_key", stage: "opening" }));
    calls.callEnded(plainEnd({ code: "rate_limit_exceeded" }));
    calls.callEnded(plainEnd({ code: "server_is_overloaded" }));
    calls.callEnded(plainEnd({ code: "invalid_value" }));
    calls.callEnded(plainEnd({ model: null, operation: "list_models" }));
    calls.limitHit("tokens");
    expect(await linesOf(calls, "uis_requests_total{")).toEqual([
      'uis_requests_total{route="create_chat_completion",model="m",operation="chat",code="ok"} 2',
      'uis_requests_total{route="create_chat_completion",model="m",operation="chat",code="rate_limit_exceeded"} 1',
      'uis_requests_total{route="create_chat_completion",model="m",operation="chat",code="server_is_overloaded"} 1',
      'uis_requests_total{route="create_chat_completion",model="m",operation="chat",code="invalid_value"} 1',
      'uis_requests_total{route="create_chat_completion",model="unknown",operation="chat",code="invalid_api_key"} 1',
      'uis_requests_total{route="list_models",model="",operation="",code="ok"} 1',
    ]);
    expect(await linesOf(calls, "uis_rejections_total{")).toEqual([
      'uis_rejections_total{reason="invalid_api_key"} 1',
      'uis_rejections_total{reason="rate_limit_exceeded"} 1',
      'uis_rejections_total{reason="server_is_overloaded"} 1',
    ]);
    expect(await linesOf(calls, "uis_ratelimit_hits_total{")).toEqual(['uis_ratelimit_hits_total{limit="tokens"} 1']);
  });

  it("count disconnected clients by the stage of their call", async () => {
    const calls = new CallMetrics();
    calls.callEnded(chatEnd({ clientLeft: true, code: "client_closed_request", stage: "running" }));
    calls.callEnded(chatEnd({ clientLeft: true, stage: "delivering" }));
    calls.callEnded(chatEnd());
    expect(await linesOf(calls, "uis_client_cancelled_total{")).toEqual([
      'uis_client_cancelled_total{stage="running"} 1',
      'uis_client_cancelled_total{stage="delivering"} 1',
    ]);
  });

  it("do not count durations that a call does not have", async () => {
    const calls = new CallMetrics();
    calls.callEnded(chatEnd({ times: new CallTimes(0) }));
    for (const name of ["time_to_first_token", "inter_token_latency", "queue_time", "overhead"]) {
      expect(await linesOf(calls, `uis_${name}_seconds_count`)).toEqual([expect.stringMatching(/ 0$/)]);
    }
  });

  it("count all models after the first thousand in one series (SEC-24)", async () => {
    const calls = new CallMetrics();
    for (let i = 0; i < 1_900; i++) calls.callEnded(plainEnd({ model: `model-${i}` }));
    const lines = await linesOf(calls, "uis_requests_total{");
    expect(lines).toHaveLength(1_001);
    expect(lines.at(-1)).toBe(
      'uis_requests_total{route="create_chat_completion",model="other",operation="chat",code="ok"} 900',
    );
  });

  it("count all models after the first few in one histogram (E-15)", async () => {
    const calls = new CallMetrics(2);
    for (let i = 0; i < 5; i++) calls.callEnded(chatEnd({ model: `model-${i}` }));
    for (const name of ["uis_request_duration", "uis_time_to_first_token", "uis_queue_time", "uis_overhead"]) {
      expect(await linesOf(calls, `${name}_seconds_count`)).toEqual([
        `${name}_seconds_count{route="create_chat_completion",model="model-0"} 1`,
        `${name}_seconds_count{route="create_chat_completion",model="model-1"} 1`,
        `${name}_seconds_count{route="create_chat_completion",model="other"} 3`,
      ]);
    }
    const sums = await linesOf(calls, "gen_ai_server_request_duration_seconds_sum");
    expect(sums).toHaveLength(3);
    expect(sums[2]).toContain('gen_ai_request_model="other"} 0.375');
    expect(await linesOf(calls, "uis_requests_total{")).toHaveLength(5);
  });

  it("create one series for calls without a model and for a model named like their label", async () => {
    const calls = new CallMetrics();
    for (const model of ["unknown", null]) calls.callEnded(plainEnd({ model }));
    expect(await linesOf(calls, "uis_requests_total{")).toEqual([
      'uis_requests_total{route="create_chat_completion",model="unknown",operation="chat",code="ok"} 2',
    ]);
  });

  it("take less than 3.5 µs per call", () => {
    const calls = new CallMetrics();
    const rounds = 100_000;
    const run = (): number => {
      const sinceMs = performance.now();
      for (let i = 0; i < rounds; i++) calls.callEnded(chatEnd());
      return (performance.now() - sinceMs) / rounds;
    };
    run();
    expect(Math.min(run(), run(), run()) * 1_000).toBeLessThan(3.5);
  });
});
