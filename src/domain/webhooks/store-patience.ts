import type { Clock } from "../call/ports.js";
import type { CircuitBreaker } from "../call/circuit-breaker.js";
import { pause } from "./wake-signal.js";

/** Between two tries: the first wait, doubled up to the last. The store is used again within a second of its return. */
const firstWaitMs = 100;
const lastWaitMs = 1_000;

/** Wait before another try after so many that failed in a row, 1 or more. */
export function waitAfter(failures: number): number {
  return Math.min(lastWaitMs, firstWaitMs * 2 ** Math.min(failures - 1, 10));
}

export interface Answered<T> {
  readonly value: T;
  /** No try before this one may have done what was asked. */
  readonly isFirst: boolean;
}

/** Asks a store that may be away, again and again for a while. The log hears of the outage once, not of each try. */
export class StorePatience {
  readonly #clock: Clock;
  readonly #breaker: CircuitBreaker;
  #isOver = false;

  constructor(clock: Clock, breaker: CircuitBreaker) {
    this.#clock = clock;
    this.#breaker = breaker;
  }

  /** From now on nothing is tried again. */
  end(): void {
    this.#isOver = true;
  }

  /** Null: the store has not answered by `untilMs` (monotonic). Never rejects. Asks once at least. */
  async ask<T>(untilMs: number, question: () => Promise<T>): Promise<Answered<T> | null> {
    for (let tries = 1; ; tries += 1) {
      try {
        const value = await question();
        this.#breaker.succeeded();
        return { value, isFirst: tries === 1 };
      } catch (cause) {
        this.#breaker.failed(cause);
      }
      const waitMs = waitAfter(tries);
      if (this.#isOver || this.#clock.monotonic() + waitMs >= untilMs) return null;
      await pause(this.#clock, waitMs);
      if (this.#isOver) return null;
    }
  }
}
