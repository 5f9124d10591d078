import type { Clock } from "../../domain/call/ports.js";

/**
 * Wall-clock time that never goes back: not when the clock is set back, and not over a restart, for it begins at what
 * the file has seen. While it is ahead of the clock it runs at half speed, so that nothing stands still and the clock
 * catches up.
 */
export class StoreTime {
  readonly #clock: Clock;
  #wallMs: number;
  #monotonicMs: number;

  constructor(clock: Clock, seenAtMs: number) {
    this.#clock = clock;
    this.#wallMs = Math.max(seenAtMs, clock.now());
    this.#monotonicMs = clock.monotonic();
  }

  /** Whole milliseconds since 1970. */
  now(): number {
    const monotonicMs = this.#clock.monotonic();
    const slowMs = this.#wallMs + (monotonicMs - this.#monotonicMs) / 2;
    this.#monotonicMs = monotonicMs;
    this.#wallMs = Math.max(this.#clock.now(), slowMs);
    return Math.floor(this.#wallMs);
  }

  /** How far it is ahead of the machine's clock, which was set back then; 0 otherwise. */
  aheadMs(): number {
    return this.now() - this.#clock.now();
  }
}
