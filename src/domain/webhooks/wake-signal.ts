import type { Clock } from "../call/ports.js";

/** Resolves after a time. It cannot be cut short, and it does not keep the process alive. */
export function pause(clock: Pick<Clock, "after">, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

/** A wait with a timeout that `wake` ends early. For one waiter. */
export class WakeSignal {
  readonly #clock: Pick<Clock, "after">;
  #isWoken = false;
  #end: () => void = () => {};

  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /** If nobody waits, the next `wait()` returns at once. */
  wake(): void {
    this.#isWoken = true;
    this.#end();
  }

  /** Forgets earlier wake-ups; call it before looking for work. */
  reset(): void {
    this.#isWoken = false;
  }

  /** Null: until it is woken. */
  async wait(ms: number | null): Promise<void> {
    if (this.#isWoken) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === null ? () => {} : this.#clock.after(ms, resolve);
      this.#end = () => {
        cancel();
        resolve();
      };
    });
  }
}
