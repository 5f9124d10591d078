import { describe, expect, it } from "vitest";
import { CallMetrics } from "../../../../src/telemetry/metrics/call-metrics.js";
import { createMetricsPage } from "../../../../src/telemetry/metrics/metrics-page.js";
import { WebhookMetrics, type WebhookSources } from "../../../../src/telemetry/metrics/webhook-metrics.js";
import { metricLines, metricsAtRest } from "../../../support/metrics-text.js";

const nowMs = 1_000_000;

function pageOf(sources: Partial<WebhookSources> | null): Promise<string> {
  const webhooks: WebhookSources | null = sources && {
    metrics: new WebhookMetrics(),
    backlog: async () => [],
    waitingEvents: async () => ({ events: 0, oldestAtMs: null }),
    inFlight: () => 0,
    now: () => nowMs,
    ...sources,
  };
  return createMetricsPage(new CallMetrics(), {
    ...metricsAtRest,
    webhooks,
    now: () => nowMs,
  }).render();
}

function waiting(endpointId: string, open: number, oldestDueAtMs: number | null) {
  return { account: "a", endpointId, open, oldestDueAtMs };
}

describe("the metrics of webhooks", () => {
  it("count attempts by result, and measure their duration and lateness (WH-51)", async () => {
    const metrics = new WebhookMetrics();
    const end = { effect: "delivered", answer: "2xx", durationMs: 20, latenessMs: 3 } as const;
    metrics.attemptEnded(end);
    metrics.attemptEnded({ ...end, durationMs: 30 });
    metrics.attemptEnded({ effect: "awaiting_retry", answer: "timeout", durationMs: 5_000, latenessMs: 700 });
    metrics.attemptEnded({ effect: "permanently_failed", answer: "5xx", durationMs: 10, latenessMs: 0 });
    const page = await pageOf({ metrics });
    expect(metricLines(page, "uis_webhook_deliveries_total")).toEqual({
      '{result="delivered"}': 2,
      '{result="awaiting_retry"}': 1,
      '{result="permanently_failed"}': 1,
    });
    expect(metricLines(page, "uis_webhook_attempt_duration_seconds_count")).toEqual({
      '{answer="2xx"}': 2,
      '{answer="timeout"}': 1,
      '{answer="5xx"}': 1,
    });
    expect(metricLines(page, "uis_webhook_attempt_duration_seconds_sum")).toMatchObject({ '{answer="timeout"}': 5 });
    const lateness = metricLines(page, "uis_webhook_lateness_seconds_bucket");
    expect(lateness).toMatchObject({ '{le="0.005"}': 3, '{le="0.5"}': 3, '{le="1"}': 4, '{le="+Inf"}': 4 });
  });

  it("show the number and age of events whose deliveries are not created yet (E-30)", async () => {
    const page = await pageOf({ waitingEvents: async () => ({ events: 12, oldestAtMs: nowMs - 2_500 }) });
    expect(metricLines(page, "uis_webhook_events_waiting")).toEqual({ "": 12 });
    expect(metricLines(page, "uis_webhook_events_oldest_seconds")).toEqual({ "": 2.5 });
    const away = await pageOf({ waitingEvents: () => Promise.reject(new Error("away")) });
    expect(metricLines(away, "uis_webhook_events_waiting")).toEqual({});
  });

  it("show the open deliveries of each endpoint and their age, from one query of the store (WH-51)", async () => {
    let questions = 0;
    const page = await pageOf({
      inFlight: () => 7,
      backlog: async () => {
        questions += 1;
        return [waiting("we_a", 300, nowMs - 2_500), waiting("we_b", 1, null)];
      },
    });
    expect(metricLines(page, "uis_webhook_backlog")).toEqual({ '{endpoint="we_a"}': 300, '{endpoint="we_b"}': 1 });
    expect(metricLines(page, "uis_webhook_oldest_seconds")).toEqual({
      '{endpoint="we_a"}': 2.5,
      '{endpoint="we_b"}': 0,
    });
    expect(metricLines(page, "uis_webhook_in_flight")).toEqual({ "": 7 });
    expect(metricLines(page, "uis_fair_share_waiting")).toEqual({ '{resource="webhooks"}': 300 });
    expect(questions).toBe(1);
  });

  it("have samples for the 100 endpoints with the longest wait, and one for all others (WH-51)", async () => {
    const all = Array.from({ length: 250 }, (_, i) => waiting(`we_${i}`, 2, nowMs - 1_000 * (250 - i)));
    const page = await pageOf({ backlog: async () => all });
    const backlog = metricLines(page, "uis_webhook_backlog");
    expect(Object.keys(backlog)).toHaveLength(101);
    expect(backlog['{endpoint="we_99"}']).toBe(2);
    expect(backlog['{endpoint="other"}']).toBe(300);
    expect(metricLines(page, "uis_webhook_oldest_seconds")['{endpoint="other"}']).toBe(150);
  });

  it("show how many endpoints are failing (WH-38, WH-51)", async () => {
    const metrics = new WebhookMetrics();
    metrics.endpointsFailing(3);
    metrics.endpointsFailing(2);
    expect(metricLines(await pageOf({ metrics }), "uis_webhook_endpoints_failing")).toEqual({ "": 2 });
  });

  it("have no backlog while the store is unavailable, and no samples in a process that sends no webhooks", async () => {
    const page = await pageOf({ inFlight: () => 1, backlog: () => Promise.reject(new Error("away")) });
    expect(metricLines(page, "uis_webhook_backlog")).toEqual({});
    expect(metricLines(page, "uis_webhook_in_flight")).toEqual({ "": 1 });
    expect(metricLines(await pageOf(null), "uis_webhook_in_flight")).toEqual({});
  });
});
