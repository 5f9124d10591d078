import type { MetricSources } from "../../src/telemetry/metrics/metrics-page.js";
import { UpstreamMetrics } from "../../src/telemetry/metrics/upstream-metrics.js";

/** Sources of the metrics page for a process without models and requests. */
export const metricsAtRest: MetricSources = {
  models: () => [],
  spooled: () => ({ size: 0, memoryOnly: 0, oldestAtMs: null }),
  stateHealth: async () => ({ ok: true, writeFault: null, clock: { jumps: 0, aheadMs: 0 } }),
  areLimitsDegraded: () => false,
  fairShares: {},
  auditRecordsLost: () => 0,
  requestLogsDropped: () => 0,
  webhooks: null,
  upstreams: { metrics: new UpstreamMetrics(), deployments: () => [] },
  now: () => 0,
};

/** The values of a metrics page, by the full name of each line: `uis_requests_total{route="list_models",…}`. */
export function parseMetrics(page: string): ReadonlyMap<string, number> {
  return new Map(
    page
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const cut = line.lastIndexOf(" ");
        return [line.slice(0, cut), Number(line.slice(cut + 1))] as const;
      }),
  );
}

/** The lines of one metric: labels as they are written, and the value. */
export function metricLines(page: string, name: string): Record<string, number> {
  const lines = [...parseMetrics(page)].filter(([line]) => line === name || line.startsWith(`${name}{`));
  return Object.fromEntries(lines.map(([line, value]) => [line.slice(name.length), value]));
}
