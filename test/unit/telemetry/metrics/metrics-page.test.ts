import { expect, it } from "vitest";
import { createFairShares } from "../../../../src/domain/call/fair-shares.js";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { createMetricsPage, type MetricSources } from "../../../../src/telemetry/metrics/metrics-page.js";
import { chatEnd } from "../../../support/call-ends.js";
import { metricLines, metricsAtRest } from "../../../support/metrics-text.js";

async function pageOf(sources: Partial<MetricSources>, calls = new CallMetrics()) {
  const page = await createMetricsPage(calls, { ...metricsAtRest, now: () => 60_000, ...sources }).render();
  return (name: string) => metricLines(page, name);
}

it("the metrics page shows the current slots, queue and restarts of each model", async () => {
  const model = { running: 2, waiting: 3, engineRestarts: 1, triesDenied: null };
  const lines = await pageOf({ models: () => [{ id: 'a"b', ...model }] });
  expect(lines("uis_requests_running")).toEqual({ '{model="a\\"b"}': 2 });
  expect(lines("uis_requests_waiting")).toEqual({ '{model="a\\"b"}': 3 });
  expect(lines("uis_engine_restarts_total")).toEqual({ '{model="a\\"b"}': 1 });
});

it("the metrics page adds up the gauges of models after the first thousand", async () => {
  const models = Array.from({ length: 1_003 }, (_, i) => ({
    id: `m${i}`,
    running: 1,
    waiting: 0,
    engineRestarts: 0,
    triesDenied: null,
  }));
  const running = (await pageOf({ models: () => models }))("uis_requests_running");
  expect(Object.keys(running)).toHaveLength(1_001);
  expect(running['{model="other"}']).toBe(3);
});

it("the metrics page shows an unavailable store, settlements that are not stored yet, and lost records", async () => {
  const calls = new CallMetrics();
  calls.usageLost();
  const lines = await pageOf(
    {
      stateHealth: async () => ({ ok: true, writeFault: "the disk is full", clock: { jumps: 2, aheadMs: 90_000 } }),
      areLimitsDegraded: () => true,
      spooled: () => ({ size: 12, memoryOnly: 0, oldestAtMs: 57_500 }),
      auditRecordsLost: () => 4,
      requestLogsDropped: () => 5,
    },
    calls,
  );
  expect(lines("uis_store_up")).toEqual({ "": 0 });
  expect(lines("uis_clock_jumps_total")).toEqual({ "": 2 });
  expect(lines("uis_store_time_ahead_seconds")).toEqual({ "": 90 });
  expect(lines("uis_limits_degraded")).toEqual({ "": 1 });
  expect(lines("uis_usage_spool_size")).toEqual({ "": 12 });
  expect(lines("uis_usage_spool_oldest_seconds")).toEqual({ "": 2.5 });
  expect(lines("uis_audit_records_lost_total")).toEqual({ "": 4 });
  expect(lines("uis_request_logs_dropped_total")).toEqual({ "": 5 });
  expect(lines("uis_usage_unrecorded_total")).toEqual({ "": 1 });
});

it("the metrics page has a finite lag of the event loop, also directly after another scrape", async () => {
  await pageOf({});
  const lag = (await pageOf({}))("uis_event_loop_lag_seconds")[""];
  expect(lag).toBeGreaterThanOrEqual(0);
  expect(lag).toBeLessThan(60);
});

it("the metrics page shows the waiting entries for each resource that accounts share (E-10, E-11)", async () => {
  const shares = createFairShares();
  const { signal } = new AbortController();
  for (let lookup = 0; lookup < 40; lookup++) void shares.lookups.acquire("acme", signal);
  const lines = await pageOf({ fairShares: shares });
  expect(lines("uis_fair_share_waiting")).toEqual({
    '{resource="lookups"}': 8,
    '{resource="usage_reads"}': 0,
    '{resource="lists"}': 0,
    '{resource="tokenizing"}': 0,
  });
});

it("the metrics page has at most 300 bytes for a used model, none for others, and 20 histograms (E-15)", async () => {
  const calls = new CallMetrics();
  const models = Array.from({ length: 500 }, (_, i) => `model-${i}`);
  const state = { running: 0, waiting: 0, engineRestarts: 0, triesDenied: null };
  const sources = { ...metricsAtRest, models: () => models.map((id) => ({ id, ...state })) };
  const render = () => createMetricsPage(calls, sources).render();
  const unused = await render();
  expect(unused).not.toContain('model="model-');
  const usage = { promptTokens: 7, completionTokens: 10, cachedTokens: 0, reasoningTokens: 0 };
  for (const model of models) calls.callEnded(chatEnd({ model, usage }));
  const page = await render();
  const lines = page.split("\n").filter((line) => line.includes('model="model-499"'));
  expect(lines).toHaveLength(5);
  expect(Buffer.byteLength(`${lines.join("\n")}\n`)).toBeLessThanOrEqual(300);
  expect(page.match(/^uis_request_duration_seconds_count\{/gm)).toHaveLength(21);
  expect(page.length - unused.length).toBeLessThan(500 * 300 + 21 * 22_000);
});

it("the metrics page is rendered in slices, between which other work runs (E-15)", async () => {
  const calls = new CallMetrics(1_000);
  for (let i = 0; i < 1_000; i++) calls.callEnded(chatEnd({ model: `model-${i}` }));
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const page = await createMetricsPage(calls, metricsAtRest).render();
  isOver = true;
  expect(page).toContain('model="model-999"');
  expect(turns).toBeGreaterThan(2);
});
