import { BoundedMap } from "../../lib/bounded-map.js";

const windowMs = 60_000;
/** Addresses or names that are remembered at least half of; a caller with more of them meets other limits. */
const callersMax = 20_000;

interface Window {
  readonly startedAtMs: number;
  count: number;
}

/** Counts attempts per caller, so many in the minute that begins with the first; in memory of this process. */
export class AttemptLimit {
  readonly #perMinute: number;
  readonly #windows = new BoundedMap<string, Window>(callersMax);

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** Counts an attempt at `nowMs` (monotonic). Null, or the milliseconds until it would be allowed; it then is not counted. */
  take(caller: string, nowMs: number): number | null {
    const window = this.#windows.get(caller);
    if (window === undefined || nowMs - window.startedAtMs >= windowMs) {
      this.#windows.set(caller, { startedAtMs: nowMs, count: 1 });
      return null;
    }
    if (window.count >= this.#perMinute) return windowMs - (nowMs - window.startedAtMs);
    window.count += 1;
    return null;
  }

  /** The attempt turned out to be a good one: it does not count. */
  giveBack(caller: string): void {
    const window = this.#windows.get(caller);
    if (window !== undefined && window.count > 0) window.count -= 1;
  }
}
