import type { Clock, Logger } from "./ports.js";

/** Consecutive failures that open the breaker. */
const failuresMax = 3;
/** Interval of probes while open: the store is used again within a second of its recovery. */
const probeEveryMs = 200;
/** Time without a failure before recovery is logged, because an overloaded store answers some calls between failures. */
const steadyMs = 1_000;

export interface CircuitBreakerDeps {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Logger;
  /** Log messages when the store becomes unavailable and when it has recovered. */
  readonly messages: { readonly unavailable: string; readonly recovered: string };
}

/**
 * Circuit breaker for one kind of store call: opens after 3 failures in a row and then lets one probe through every
 * 200 ms. Logs each change once, not once per call.
 */
export class CircuitBreaker {
  readonly #deps: CircuitBreakerDeps;
  #failures = 0;
  #probedAtMs = 0;
  #failedAtMs = 0;
  #isUnavailable = false;

  constructor(deps: CircuitBreakerDeps) {
    this.#deps = deps;
  }

  /** True from a failed call until a call succeeds at least a second after the last failure. */
  get isUnavailable(): boolean {
    return this.#isUnavailable;
  }

  /** While open, only probes reach the store. */
  get isOpen(): boolean {
    return this.#failures >= failuresMax;
  }

  /** True when closed; when open, once per probe interval. */
  get allowsCall(): boolean {
    if (!this.isOpen) return true;
    const nowMs = this.#deps.clock.monotonic();
    if (nowMs - this.#probedAtMs < probeEveryMs) return false;
    this.#probedAtMs = nowMs;
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
    if (!this.#isUnavailable || this.#deps.clock.monotonic() - this.#failedAtMs < steadyMs) return;
    this.#isUnavailable = false;
    this.#deps.log.info({}, this.#deps.messages.recovered);
  }

  failed(cause: unknown): void {
    const { clock, log, messages } = this.#deps;
    this.#failedAtMs = clock.monotonic();
    this.#failures += 1;
    if (this.#failures === failuresMax) this.#probedAtMs = this.#failedAtMs;
    if (this.#isUnavailable) return;
    this.#isUnavailable = true;
    log.error({ err: cause }, messages.unavailable);
  }
}
