import type { Clock } from "../../domain/call/ports.js";
import type { StopSignal } from "../../lib/lazy-abort.js";

/** Tokens that a call may produce without a pause before the event loop gets its turn. */
const tokensPerTurn = 64;

/** Resolves when the event loop has served whatever else was due. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * The rhythm of one call. Every wait ends at once when the call is stopped; the caller looks at `stopped` after each.
 * A listener on the signal and a timer for as long as there is something to wait for, and none for a call that never waits.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #signal: StopSignal;
  #stopped = false;
  #wake: (() => void) | null = null;
  #sinceTurn = 0;
  readonly #onAbort = (): void => this.#wake?.();

  constructor(clock: Clock, signal: StopSignal) {
    this.#clock = clock;
    this.#signal = signal;
  }

  get stopped(): boolean {
    return this.#stopped || this.#signal.aborted;
  }

  /** Ends the running wait and all later ones. */
  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  /**
   * Waits `ms`; 0 gives the event loop its turn after every so many tokens, so that no call starves the others.
   * Undefined: there is nothing to wait for.
   */
  beforeTokens(count: number, ms: number): Promise<void> | undefined {
    if (ms > 0) return this.wait(ms);
    const turnOver = this.#sinceTurn >= tokensPerTurn;
    this.#sinceTurn = turnOver ? count : this.#sinceTurn + count;
    return turnOver ? nextTurn() : undefined;
  }

  /** Waits `ms`; Infinity: until stopped. */
  async wait(ms: number): Promise<void> {
    if (this.stopped || ms <= 0) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === Number.POSITIVE_INFINITY ? null : this.#clock.after(ms, () => this.#wake?.());
      this.#wake = () => {
        cancel?.();
        this.#signal.removeEventListener("abort", this.#onAbort);
        this.#wake = null;
        resolve();
      };
      this.#signal.addEventListener("abort", this.#onAbort);
    });
  }
}
