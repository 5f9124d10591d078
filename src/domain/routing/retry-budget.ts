import type { Clock } from "../call/ports.js";
import { SlidingCount } from "./sliding-count.js";

/** Maximum number of further tries of one request. */
const triesMax = 2;
/** Maximum number of further tries of a model within 10 s: a share of its requests plus a fixed number. */
const shareOfRequests = 0.2;
const triesPerWindow = 100;

/**
 * Retry budget of a model in this process: within any 10 s, further tries are at most 20 % of its requests plus 10 a
 * second (REL-8). Without it, a failing upstream would receive every request three times.
 */
export class RetryBudget {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #requests = new SlidingCount();
  readonly #tries = new SlidingCount();
  /** Tries that were denied because the budget was used up. */
  exhausted = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Counts a request, once, before its first try. */
  requested(): void {
    this.#requests.add(this.#clock.monotonic());
  }

  /** Whether a request after `tries` tries (1 or more) may try again. If so, the further try is counted. */
  take(tries: number): boolean {
    if (tries > triesMax) return false;
    const nowMs = this.#clock.monotonic();
    if (this.#tries.total(nowMs) + 1 > shareOfRequests * this.#requests.total(nowMs) + triesPerWindow) {
      this.exhausted += 1;
      return false;
    }
    this.#tries.add(nowMs);
    return true;
  }
}
