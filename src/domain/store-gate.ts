import type { Clock, Logger } from "./ports.js";

/** Failures in a row after which nobody waits for the store any more. */
const failuresMax = 3;
/** How often one request tries whether the store is back: it is used again within a second of its return. */
const tryEveryMs = 200;

/**
 * Whether the shared store is worth waiting for. After some failures in a row it is not, but for one request every
 * 200 ms, which finds out when it is back. Tells of each change once in the log, not for each request.
 */
export class StoreGate {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #log: Logger;
  #failures = 0;
  #triedAtMs = 0;
  #isAway = false;

  constructor(deps: { readonly clock: Pick<Clock, "monotonic">; readonly log: Logger }) {
    this.#clock = deps.clock;
    this.#log = deps.log;
  }

  /** The last request that asked the store got no answer. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** Whether to ask the store now. */
  get isOpen(): boolean {
    if (this.#failures < failuresMax) return true;
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#triedAtMs < tryEveryMs) return false;
    this.#triedAtMs = nowMs;
    return true;
  }

  answered(): void {
    if (this.#failures === 0) return;
    this.#failures = 0;
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#log.info({}, "the store answers again");
  }

  failed(cause: unknown): void {
    this.#failures += 1;
    if (this.#failures === failuresMax) this.#triedAtMs = this.#clock.monotonic();
    if (this.#isAway) return;
    this.#isAway = true;
    this.#log.error({ err: cause }, "the store does not answer: limits are decided here, usage waits in the spool");
  }
}
