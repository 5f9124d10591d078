const bucketMs = 250;
const buckets = 41;

/** Counts events of the last 10 s, in buckets of 250 ms: an event is forgotten after 10 to 10.25 s. */
export class SlidingCount {
  readonly #counts = new Uint32Array(buckets);
  /** Number of the newest bucket since the clock's zero. */
  #newest = 0;
  #total = 0;

  add(nowMs: number): void {
    this.#forget(nowMs);
    const at = this.#newest % buckets;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#total += 1;
  }

  total(nowMs: number): number {
    this.#forget(nowMs);
    return this.#total;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#total = 0;
  }

  #forget(nowMs: number): void {
    const newest = Math.floor(nowMs / bucketMs);
    if (newest <= this.#newest) return;
    if (this.#total > 0) {
      for (let bucket = Math.max(this.#newest + 1, newest - buckets + 1); bucket <= newest; bucket++) {
        this.#total -= this.#counts[bucket % buckets] ?? 0;
        this.#counts[bucket % buckets] = 0;
      }
    }
    this.#newest = newest;
  }
}
