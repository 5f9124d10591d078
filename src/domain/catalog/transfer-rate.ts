/** Time over which the rate is averaged. */
const windowMs = 5_000;
/** A rate over a shorter time is too inexact to be shown. */
const firstRateMs = 500;
/** Least time between two samples, which bounds their number. */
const sampleEveryMs = 100;

interface Sample {
  readonly atMs: number;
  readonly bytes: number;
}

/** Average rate of a download over its last 5 s, for every place that shows one. */
export class TransferRate {
  readonly #nowMs: () => number;
  /** In the order of time. The last two are kept even if they are older than the window. */
  #samples: Sample[] = [];
  #bytes = 0;

  /** `nowMs`: a monotonic clock. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** `bytes`: all bytes received so far, including those of interrupted attempts. */
  received(bytes: number): void {
    // Without bytes the source has not answered yet; with fewer bytes another source has begun.
    if (bytes === 0 || bytes < this.#bytes) this.#samples = [];
    this.#bytes = bytes;
    if (bytes === 0) return;
    const nowMs = this.#nowMs();
    const newestMs = this.#samples.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - newestMs >= sampleEveryMs) this.#samples.push({ atMs: nowMs, bytes });
    while ((this.#samples[0]?.atMs ?? nowMs) < nowMs - windowMs && this.#samples.length > 2) this.#samples.shift();
  }

  /** Null in the first half second. It falls while nothing is received. */
  get bytesPerSecond(): number | null {
    const [oldest] = this.#samples;
    if (oldest === undefined) return null;
    const elapsedMs = this.#nowMs() - oldest.atMs;
    return elapsedMs < firstRateMs ? null : Math.round(((this.#bytes - oldest.bytes) * 1_000) / elapsedMs);
  }
}
