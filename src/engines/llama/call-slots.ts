import { EngineError } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { abortedError } from "./protocol/call-errors.js";

/** The slot of one call. */
export interface HeldSlot {
  /** The child was asked to end the call early. */
  leave(): void;
  /** Called once, when no child has the call any more. */
  giveBack(): void;
}

/**
 * The slots of a child, as counted by the server. A slot stays taken until the child has ended the call, which can be
 * after its caller got the error of an abort: the child first completes the step that it is in.
 */
export class CallSlots {
  readonly #slots: number;
  readonly #waiting = new Set<() => void>();
  readonly #whenIdle: (() => void)[] = [];
  #busy = 0;
  /** Slots of aborted calls, which become free soon. */
  #leaving = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  get busy(): number {
    return this.#busy;
  }

  /**
   * Takes a slot, at once where one is free. Waits for slots of calls that are ended early only, so no longer than a child
   * may take to end one before it counts as hung. Rejects with EngineError `overloaded` when other calls have all slots,
   * and with `aborted`.
   */
  take(signal: AbortFlag): HeldSlot | Promise<HeldSlot> {
    if (this.#busy >= this.#slots) return this.#next(signal).then(() => this.#hold());
    this.#busy += 1;
    return this.#hold();
  }

  /** Calls back when no slot is taken, once. */
  whenIdle(callback: () => void): void {
    if (this.#busy === 0) callback();
    else this.#whenIdle.push(callback);
  }

  #hold(): HeldSlot {
    let isLeaving = false;
    return {
      leave: () => {
        if (!isLeaving) this.#leaving += 1;
        isLeaving = true;
      },
      giveBack: () => {
        if (isLeaving) this.#leaving -= 1;
        this.#free();
      },
    };
  }

  #next(signal: AbortFlag): Promise<void> {
    if (this.#waiting.size >= this.#leaving) {
      return Promise.reject(new EngineError("overloaded", "all slots are busy", { retryable: true }));
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(grant);
        reject(abortedError(signal));
      };
      const grant = (): void => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      signal.addEventListener("abort", onAbort);
      this.#waiting.add(grant);
    });
  }

  /** A slot that somebody waits for stays taken. */
  #free(): void {
    const [grant] = this.#waiting;
    if (grant !== undefined) {
      this.#waiting.delete(grant);
      grant();
      return;
    }
    this.#busy -= 1;
    if (this.#busy > 0) return;
    for (const callback of this.#whenIdle.splice(0)) callback();
  }
}
