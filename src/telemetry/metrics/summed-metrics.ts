import { type MetricData, type MetricName, metricTable, type Sample } from "./metric-table.js";

type Combine = (a: number, b: number) => number;

const sum: Combine = (a, b) => a + b;
const combineBy: Readonly<Record<"largest" | "smallest", Combine>> = { largest: Math.max, smallest: Math.min };

/** Prom-client's own gauges for which a sum is meaningless, by the start of their names, and how they are combined. */
const ofProcess: readonly (readonly [string, Combine])[] = [
  ["process_start_time_seconds", Math.min],
  ["nodejs_eventloop_lag_", Math.max],
  ["nodejs_version_info", Math.max],
];

function combineOf(name: string): Combine {
  const own = Object.hasOwn(metricTable, name) ? metricTable[name as MetricName] : undefined;
  if (own !== undefined) return "ofWorkers" in own ? combineBy[own.ofWorkers] : sum;
  return ofProcess.find(([start]) => name.startsWith(start))?.[1] ?? sum;
}

/** Every worker reports all open deliveries of the shared store, so they are not added up; other work waits in one worker. */
function combineOfSample(combine: Combine, { labels }: Sample): Combine {
  return labels["resource"] === "webhooks" ? Math.max : combine;
}

/**
 * The metrics of several workers as one page. The last counts of a worker that has ended are kept, so that no counter
 * decreases when the worker is replaced.
 */
export class SummedMetrics {
  /** The last page of each running worker, by the id of its process. */
  readonly #pages = new Map<number, readonly MetricData[]>();
  /** Counters and histograms of the workers that have ended. */
  #ended: readonly MetricData[] = [];

  /** Replaces the page of a running worker. */
  read(worker: number, page: readonly MetricData[]): void {
    this.#pages.set(worker, page);
  }

  ended(worker: number): void {
    const page = this.#pages.get(worker);
    if (page === undefined) return;
    this.#pages.delete(worker);
    this.#ended = combined([this.#ended, page.filter(({ type }) => type !== "gauge")]);
  }

  /** All metrics, in the order of the first page that has them. */
  all(): readonly MetricData[] {
    return combined([...this.#pages.values(), this.#ended]);
  }
}

interface Combined {
  readonly metric: MetricData;
  readonly combine: Combine;
  readonly values: Map<string, Sample>;
}

function combined(pages: readonly (readonly MetricData[])[]): readonly MetricData[] {
  const byName = new Map<string, Combined>();
  for (const metric of pages.flat()) {
    const found = byName.get(metric.name) ?? { metric, combine: combineOf(metric.name), values: new Map() };
    byName.set(metric.name, found);
    for (const sample of metric.values) add(found, sample);
  }
  return [...byName.values()].map(({ metric, values }) => ({ ...metric, values: [...values.values()] }));
}

function add({ combine, values }: Combined, sample: Sample): void {
  const key = `${sample.metricName ?? ""} ${JSON.stringify(sample.labels)}`;
  const before = values.get(key);
  const value = before === undefined ? sample.value : combineOfSample(combine, sample)(before.value, sample.value);
  values.set(key, { ...sample, value });
}
