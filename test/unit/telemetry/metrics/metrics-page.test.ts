import { expect, it } from "vitest";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { createMetricsPage, type MetricSources } from "../../../../src/telemetry/metrics/metrics-page.js";
import { UpstreamMetrics } from "../../../../src/telemetry/metrics/upstream-metrics.js";
import { metricLines } from "../../../support/metrics-text.js";

const atRest: MetricSources = {
  models: () => [],
  spooled: () => ({ size: 0, memoryOnly: 0, oldestAtMs: null }),
  isStoreUp: async () => true,
  areLimitsDegraded: () => false,
  auditRecordsLost: () => 0,
  requestLogsDropped: () => 0,
  webhooks: null,
  upstreams: { metrics: new UpstreamMetrics(), deployments: () => [] },
  now: () => 60_000,
};

async function pageOf(sources: Partial<MetricSources>, calls = new CallMetrics()) {
  const page = await createMetricsPage(calls, { ...atRest, ...sources }).render();
  return (name: string) => metricLines(page, name);
}

it("shows each model's slots, queue and restarts as they are now", async () => {
  const model = { running: 2, waiting: 3, engineRestarts: 1, triesDenied: null };
  const lines = await pageOf({ models: () => [{ id: 'a"b', ...model }] });
  expect(lines("uis_requests_running")).toEqual({ '{model="a\\"b"}': 2 });
  expect(lines("uis_requests_waiting")).toEqual({ '{model="a\\"b"}': 3 });
  expect(lines("uis_engine_restarts_total")).toEqual({ '{model="a\\"b"}': 1 });
});

it("adds up models beyond the first hundred", async () => {
  const models = Array.from({ length: 103 }, (_, i) => ({
    id: `m${i}`,
    running: 1,
    waiting: 0,
    engineRestarts: 0,
    triesDenied: null,
  }));
  const running = (await pageOf({ models: () => models }))("uis_requests_running");
  expect(Object.keys(running)).toHaveLength(101);
  expect(running['{model="other"}']).toBe(3);
});

it("shows an unavailable store, settlements that wait for it, and lost records", async () => {
  const calls = new CallMetrics();
  calls.usageLost();
  const lines = await pageOf(
    {
      isStoreUp: async () => false,
      areLimitsDegraded: () => true,
      spooled: () => ({ size: 12, memoryOnly: 0, oldestAtMs: 57_500 }),
      auditRecordsLost: () => 4,
      requestLogsDropped: () => 5,
    },
    calls,
  );
  expect(lines("uis_store_up")).toEqual({ "": 0 });
  expect(lines("uis_limits_degraded")).toEqual({ "": 1 });
  expect(lines("uis_usage_spool_size")).toEqual({ "": 12 });
  expect(lines("uis_usage_spool_oldest_seconds")).toEqual({ "": 2.5 });
  expect(lines("uis_audit_records_lost_total")).toEqual({ "": 4 });
  expect(lines("uis_request_logs_dropped_total")).toEqual({ "": 5 });
  expect(lines("uis_usage_unrecorded_total")).toEqual({ "": 1 });
});

it("has a finite lag of the event loop, also right after another scrape", async () => {
  await pageOf({});
  const lag = (await pageOf({}))("uis_event_loop_lag_seconds")[""];
  expect(lag).toBeGreaterThanOrEqual(0);
  expect(lag).toBeLessThan(60);
});
