import type { CircuitBreaker } from "../call/circuit-breaker.js";
import type { Clock } from "../call/ports.js";
import { pause } from "./wake-signal.js";

/** Backoff between tries, doubled up to the maximum: the store is used again within a second of its recovery. */
const firstWaitMs = 100;
const lastWaitMs = 1_000;

/** Backoff after `failures` tries in a row that failed, 1 or more. */
export function waitAfter(failures: number): number {
  return Math.min(lastWaitMs, firstWaitMs * 2 ** Math.min(failures - 1, 10));
}

export interface Answered<T> {
  readonly value: T;
  /** False when an earlier try may already have taken effect. */
  readonly isFirst: boolean;
}

/** Retries store calls during an outage, with exponential backoff. The breaker logs the outage once. */
export class StoreRetries {
  readonly #clock: Clock;
  readonly #breaker: CircuitBreaker;
  #isOver = false;

  constructor(clock: Clock, breaker: CircuitBreaker) {
    this.#clock = clock;
    this.#breaker = breaker;
  }

  /** Stops all retries. */
  end(): void {
    this.#isOver = true;
  }

  /** Null: the store has not answered by `untilMs` (monotonic). Never rejects. Asks once at least. */
  async retryUntil<T>(untilMs: number, question: () => Promise<T>): Promise<Answered<T> | null> {
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
