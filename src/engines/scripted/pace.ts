import type { Clock } from "../../domain/ports.js";

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
 * One listener on the signal for the whole call, one timer for a wait, none where there is nothing to wait for.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #stop = (): void => this.stop();
  #stopped: boolean;
  #wake: (() => void) | null = null;
  #sinceTurn = 0;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
    this.#stopped = signal.aborted;
    signal.addEventListener("abort", this.#stop, { once: true });
  }

  get stopped(): boolean {
    return this.#stopped;
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
    if (this.#stopped || ms <= 0) return;
    let cancel = (): void => {};
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      if (ms !== Number.POSITIVE_INFINITY) cancel = this.#clock.after(ms, resolve);
    });
    cancel();
    this.#wake = null;
  }

  /** Lets go of the signal. */
  close(): void {
    this.#signal.removeEventListener("abort", this.#stop);
  }
}
