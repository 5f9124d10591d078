import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { collectDefaultMetrics, Registry } from "prom-client";

/** Gauges that are named like counters, which `promtool check metrics` does not accept. */
const misnamed = ["nodejs_active_resources_total", "nodejs_active_handles_total", "nodejs_active_requests_total"];

/** How often the lag is looked at. A measured delay holds this wait, too. */
const everyMs = 10;

interface ProcessMetrics {
  readonly registry: Registry;
  readonly loopDelay: IntervalHistogram;
}

let started: ProcessMetrics | null = null;

/** Metrics of this process. There is one process, so they are started once, however many services it has. */
export function processMetrics(): ProcessMetrics {
  if (started !== null) return started;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const loopDelay = monitorEventLoopDelay({ resolution: everyMs });
  loopDelay.enable();
  started = { registry, loopDelay };
  return started;
}

/** Lag of the event loop in seconds since the last call, 99th percentile. */
export function takeLoopLag(loopDelay: IntervalHistogram): number {
  // Of an empty histogram the percentile is far above 0.
  const delayMs = loopDelay.count === 0 ? 0 : loopDelay.percentile(99) / 1e6;
  loopDelay.reset();
  return Math.max(0, delayMs - everyMs) / 1_000;
}
