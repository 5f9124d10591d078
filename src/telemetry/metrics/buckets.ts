/**
 * Seconds counted in buckets. Observing one takes some ten nanoseconds: a prom-client histogram takes fifty times as
 * long, because it makes a key of its labels for each value.
 */
export class Buckets {
  readonly #bounds: readonly number[];
  /** One per bound, and one for what is above all of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` ascend; a value counts in the first one that it does not exceed. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(seconds: number): void {
    const bounds = this.#bounds;
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (seconds <= (bounds[middle] ?? 0)) high = middle;
      else low = middle + 1;
    }
    this.#counts[low] = (this.#counts[low] ?? 0) + 1;
    this.#sum += seconds;
  }

  get sum(): number {
    return this.#sum;
  }

  get count(): number {
    return this.#counts.reduce((count, own) => count + own, 0);
  }

  /** Adds what another one with the same bounds has counted. */
  add(other: Buckets): void {
    for (const [i, count] of other.#counts.entries()) this.#counts[i] = (this.#counts[i] ?? 0) + count;
    this.#sum += other.#sum;
  }

  /** How many values are at most each of `bounds`, which are some of its own. */
  upTo(bounds: readonly number[]): number[] {
    const wanted = new Set(bounds);
    const counts: number[] = [];
    let count = 0;
    for (const [i, bound] of this.#bounds.entries()) {
      count += this.#counts[i] ?? 0;
      if (wanted.has(bound)) counts.push(count);
    }
    return counts;
  }

  /**
   * The value that `share` of all do not exceed, taken to be spread evenly inside their bucket; 0 when there are none. What
   * is above all bounds counts as the highest.
   */
  quantile(share: number): number {
    const wanted = share * this.count;
    let below = 0;
    let low = 0;
    for (const [i, high] of this.#bounds.entries()) {
      const own = this.#counts[i] ?? 0;
      if (own > 0 && below + own >= wanted) return low + ((wanted - below) / own) * (high - low);
      below += own;
      low = high;
    }
    return wanted === 0 ? 0 : low;
  }
}

/**
 * Bounds of histograms, in seconds. What is shown in two forms is counted once: our own bounds hold those of
 * OpenTelemetry's conventions, and the further ones that engines on CPUs need.
 */

/** 0.01 to 81.92, doubling: `gen_ai.server.request.duration`. */
const genAiDuration = Array.from({ length: 14 }, (_, i) => 2 ** i / 100);
/** `gen_ai.server.time_to_first_token`, and above. */
const firstToken = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
/** `gen_ai.server.time_per_output_token`, and above. */
const genAiTokenGap = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];

export const bounds = {
  duration: [0.001, 0.0025, 0.005, ...genAiDuration, 163.84, 327.68, 655.36],
  genAiDuration,
  firstToken,
  tokenGap: [0.001, 0.0025, 0.005, ...genAiTokenGap],
  genAiTokenGap,
  queue: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80],
  webhookAttempt: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  webhookLateness: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
  overhead: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
} as const;
