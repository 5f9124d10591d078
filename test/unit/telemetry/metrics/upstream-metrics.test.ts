import { describe, expect, it } from "vitest";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { createMetricsPage, type MetricSources } from "../../../../src/telemetry/metrics/metrics-page.js";
import { UpstreamMetrics, type UpstreamSources } from "../../../../src/telemetry/metrics/upstream-metrics.js";
import { metricLines, metricsAtRest } from "../../../support/metrics-text.js";

async function linesOf(upstreams: Partial<UpstreamSources>, models: MetricSources["models"] = () => []) {
  const calls = new CallMetrics();
  for (const { id } of models()) if (id !== "unused") calls.labelOf(id);
  const page = await createMetricsPage(calls, {
    ...metricsAtRest,
    models,
    upstreams: { metrics: new UpstreamMetrics(), deployments: () => [], ...upstreams },
  }).render();
  return (name: string) => metricLines(page, name);
}

describe("the metrics of upstreams", () => {
  it("count attempts by outcome, and measure the time to the first byte of answers", async () => {
    const metrics = new UpstreamMetrics();
    const attempt = { deployment: "gpu/llama", upstream: "gpu" };
    metrics.attemptEnded(attempt, "success", 30);
    metrics.attemptEnded(attempt, "success", 70);
    metrics.attemptEnded(attempt, "timeout", null);
    const lines = await linesOf({ metrics });
    expect(lines("uis_upstream_requests_total")).toEqual({
      '{upstream="gpu",deployment="gpu/llama",outcome="success"}': 2,
      '{upstream="gpu",deployment="gpu/llama",outcome="timeout"}': 1,
    });
    const labels = '{upstream="gpu",deployment="gpu/llama"}';
    expect(lines("uis_upstream_first_byte_seconds_sum")).toEqual({ [labels]: 0.1 });
    expect(lines("uis_upstream_first_byte_seconds_count")).toEqual({ [labels]: 2 });
    expect(lines("uis_upstream_first_byte_seconds_bucket")).toMatchObject({
      '{upstream="gpu",deployment="gpu/llama",le="0.04"}': 1,
      '{upstream="gpu",deployment="gpu/llama",le="0.08"}': 2,
    });
  });

  it("show ejected deployments and outstanding tokens, and omit deployments that were never used (E-15)", async () => {
    const metrics = new UpstreamMetrics();
    for (const upstream of ["a", "b"]) metrics.attemptEnded({ deployment: `${upstream}/m`, upstream }, "success", 30);
    const lines = await linesOf({
      metrics,
      deployments: () => [
        { id: "a/m", isEjected: true, outstandingTokens: 0 },
        { id: "b/m", isEjected: false, outstandingTokens: 1_500 },
        { id: "unused/m", isEjected: false, outstandingTokens: 0 },
      ],
    });
    expect(lines("uis_upstream_ejected")).toEqual({ '{deployment="a/m"}': 1, '{deployment="b/m"}': 0 });
    expect(lines("uis_upstream_outstanding_tokens")).toEqual({ '{deployment="a/m"}': 0, '{deployment="b/m"}': 1_500 });
  });

  it("add up deployments after the first thousand, and in histograms after the first 20", async () => {
    const metrics = new UpstreamMetrics();
    const ids = Array.from({ length: 1_003 }, (_, i) => `u${i}/m`);
    for (const [i, deployment] of ids.entries()) {
      metrics.attemptEnded({ deployment, upstream: `u${i}` }, "success", 10);
    }
    const deployments = () => ids.map((id) => ({ id, isEjected: true, outstandingTokens: 2 }));
    const lines = await linesOf({ metrics, deployments });
    const requests = lines("uis_upstream_requests_total");
    expect(Object.keys(requests)).toHaveLength(1_001);
    expect(requests['{upstream="other",deployment="other",outcome="success"}']).toBe(3);
    const firstBytes = lines("uis_upstream_first_byte_seconds_count");
    expect(Object.keys(firstBytes)).toHaveLength(21);
    expect(firstBytes['{upstream="other",deployment="other"}']).toBe(983);
    expect(lines("uis_upstream_ejected")['{deployment="other"}']).toBe(3);
    expect(lines("uis_upstream_outstanding_tokens")['{deployment="other"}']).toBe(6);
  });

  it("count tries that the retry budget denied, from 0, for models with upstreams that were used", async () => {
    const model = { running: 0, waiting: 0, engineRestarts: 0 };
    const lines = await linesOf({}, () => [
      { ...model, id: "embedded", triesDenied: null },
      { ...model, id: "unused", triesDenied: 0 },
      { ...model, id: "working", triesDenied: 0 },
      { ...model, id: "failing", triesDenied: 7 },
    ]);
    expect(lines("uis_retry_budget_exhausted_total")).toEqual({ '{model="working"}': 0, '{model="failing"}': 7 });
  });
});
