import type { Buckets } from "./call-metrics.js";

export type Labels = Readonly<Record<string, string>>;

/** One line of the page of metrics. */
export interface Sample {
  /** Absent: the metric's own. */
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** The lines of a histogram: one per bound, each with all that is below, then sum and count. */
export function histogramSamples(name: string, labels: Labels, buckets: Buckets, bounds: readonly number[]): Sample[] {
  const counts = buckets.upTo(bounds);
  const { count, sum } = buckets;
  const metricName = `${name}_bucket`;
  return [
    ...bounds.map((le, i) => ({ metricName, labels: { ...labels, le }, value: counts[i] ?? 0 })),
    { metricName, labels: { ...labels, le: "+Inf" }, value: count },
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}

/** A line per name. */
export function samplesBy(label: string, values: ReadonlyMap<string, number>): Sample[] {
  return [...values].map(([name, value]) => ({ labels: { [label]: name }, value }));
}

/** The one line of a metric without labels. */
export function single(value: number): Sample[] {
  return [{ labels: {}, value }];
}
