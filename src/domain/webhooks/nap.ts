import type { Clock } from "../call/ports.js";

/** Resolves after a time. It cannot be cut short, and it does not keep the process alive. */
export function pause(clock: Pick<Clock, "after">, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

/** A wait that ends early when it is woken. For one sleeper. */
export class Nap {
  readonly #clock: Pick<Clock, "after">;
  #isWoken = false;
  #end: () => void = () => {};

  constructor(clock: Pick<Clock, "after">) {
    this.#clock = clock;
  }

  /** Ends the wait; when nobody waits, the next one, so that nothing is overslept. */
  wake(): void {
    this.#isWoken = true;
    this.#end();
  }

  /** What woke it until now is looked at from here on. */
  forget(): void {
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
