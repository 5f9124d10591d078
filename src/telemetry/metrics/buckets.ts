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
