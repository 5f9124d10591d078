import { describe, expect, it } from "vitest";
import type { MetricData } from "../../../../src/telemetry/metrics/metric-table.js";
import { SummedMetrics } from "../../../../src/telemetry/metrics/summed-metrics.js";

const metric = (name: string, type: MetricData["type"], value: number, labels = {}): MetricData => {
  return { name, type, help: "", values: [{ labels, value }] };
};
const valuesOf = (sums: SummedMetrics) =>
  Object.fromEntries(sums.all().map(({ name, values }) => [name, values[0]?.value]));

describe("the metrics of several workers", () => {
  it("are sums, or the worst value for facts that all workers share, such as the store's state (REL-27)", () => {
    const sums = new SummedMetrics();
    const page = (count: number, up: number): MetricData[] => [
      metric("uis_requests_total", "counter", count),
      metric("uis_store_up", "gauge", up),
      metric("uis_webhook_backlog", "gauge", 7, { endpoint: "a" }),
      metric("process_resident_memory_bytes", "gauge", 100),
      metric("process_start_time_seconds", "gauge", count),
    ];
    sums.read(11, page(3, 1));
    sums.read(12, page(4, 0));
    expect(valuesOf(sums)).toEqual({
      uis_requests_total: 7,
      uis_store_up: 0,
      uis_webhook_backlog: 7,
      process_resident_memory_bytes: 200,
      process_start_time_seconds: 3,
    });
  });

  it("include the counters, but not the gauges, of a worker that has ended", () => {
    const sums = new SummedMetrics();
    const page = [metric("uis_requests_total", "counter", 5), metric("uis_requests_running", "gauge", 2)];
    sums.read(11, page);
    sums.read(12, page);
    sums.ended(11);
    expect(valuesOf(sums)).toEqual({ uis_requests_total: 10, uis_requests_running: 2 });
  });
});
