import type { UpstreamObserver, UpstreamOutcome } from "../../domain/engine/upstream.js";
import { Buckets, bounds } from "./call-metrics.js";
import {
  type Collect,
  histogramsSamples,
  type Labels,
  type MetricName,
  type Sample,
  samplesBy,
} from "./metric-table.js";

/** Number of deployments with counters and gauges of their own; further ones share the series of the deployment `other`. */
const deploymentsMax = 1_000;
const histogramDeploymentsDefault = 20;
const other = "other";

/** Attempts at one deployment. */
interface UpstreamSeries {
  readonly upstream: string;
  /** Label of the deployment. */
  readonly deployment: string;
  readonly outcomes: Map<UpstreamOutcome, number>;
  readonly firstByte: Buckets;
}

/** Counts attempts at upstream servers. */
export class UpstreamMetrics {
  readonly #byLabel = new Map<string, UpstreamSeries>();
  /** Labels of the deployments that were used, in the order of their first use. */
  readonly #deployments = new Set<string>();
  readonly #histogramDeploymentsMax: number;

  /** `histogramDeployments`: number of deployments with histograms of their own. */
  constructor(histogramDeployments = histogramDeploymentsDefault) {
    this.#histogramDeploymentsMax = histogramDeployments;
  }

  readonly attemptEnded: UpstreamObserver = ({ deployment, upstream }, outcome, firstByteMs) => {
    const { outcomes, firstByte } = this.#byLabel.get(deployment) ?? this.#newSeries(deployment, upstream);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    if (firstByteMs !== null) firstByte.observe(firstByteMs / 1_000);
  };

  series(): readonly UpstreamSeries[] {
    return [...this.#byLabel.values()];
  }

  /** Times to the first byte. Deployments beyond the first few share the histogram of the deployment `other`. */
  firstBytes(): readonly { readonly labels: Labels; readonly buckets: Buckets }[] {
    return this.series().map(({ upstream, deployment, firstByte: buckets }, i) => {
      const isOwn = i < this.#histogramDeploymentsMax;
      return { labels: { upstream: isOwn ? upstream : other, deployment: isOwn ? deployment : other }, buckets };
    });
  }

  /** The label of a deployment. The first deployments that are used keep their ids permanently. */
  labelOf(deployment: string): string {
    if (this.#deployments.has(deployment)) return deployment;
    if (this.#deployments.size >= deploymentsMax) return other;
    this.#deployments.add(deployment);
    return deployment;
  }

  /** Whether the deployment has a label of its own, which its first attempt gives it. */
  hasLabel(deployment: string): boolean {
    return this.#deployments.has(deployment);
  }

  #newSeries(id: string, upstream: string): UpstreamSeries {
    const deployment = this.labelOf(id);
    const known = this.#byLabel.get(deployment);
    if (known !== undefined) return known;
    const series: UpstreamSeries = {
      upstream: deployment === other ? other : upstream,
      deployment,
      outcomes: new Map(),
      firstByte: new Buckets(bounds.firstToken),
    };
    this.#byLabel.set(deployment, series);
    return series;
  }
}

/** Current state of a deployment at an upstream server. */
interface UpstreamDeployment {
  readonly id: string;
  readonly isEjected: boolean;
  readonly outstandingTokens: number;
}

export interface UpstreamSources {
  readonly metrics: UpstreamMetrics;
  readonly deployments: () => readonly UpstreamDeployment[];
}

/** Collectors of the metrics of upstream servers. */
export function upstreamSamples({ metrics, deployments }: UpstreamSources) {
  const byDeployment = (countOf: (deployment: UpstreamDeployment) => number): Collect => {
    return () => {
      const sums = new Map<string, number>();
      for (const deployment of deployments()) {
        if (countOf(deployment) === 0 && !metrics.hasLabel(deployment.id)) continue;
        const label = metrics.labelOf(deployment.id);
        sums.set(label, (sums.get(label) ?? 0) + countOf(deployment));
      }
      return samplesBy("deployment", sums);
    };
  };
  return {
    uis_upstream_requests_total: () => metrics.series().flatMap(attemptCounts),
    uis_upstream_first_byte_seconds: (name) => histogramsSamples(name, metrics.firstBytes(), bounds.firstToken),
    uis_upstream_ejected: byDeployment(({ isEjected }) => Number(isEjected)),
    uis_upstream_outstanding_tokens: byDeployment(({ outstandingTokens }) => outstandingTokens),
  } satisfies Partial<Record<MetricName, Collect>>;
}

function attemptCounts({ upstream, deployment, outcomes }: UpstreamSeries): Sample[] {
  return [...outcomes].map(([outcome, value]) => ({ labels: { upstream, deployment, outcome }, value }));
}
