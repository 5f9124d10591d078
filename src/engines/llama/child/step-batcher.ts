/**
 * Runs the steps of all calls of a context in batches: a batch has one step of every call that waits, and the next one
 * begins when all of them are done.
 *
 * Without it the binding starts a native batch as soon as one call is ready: calls that fit into one batch run one after
 * another, and its lock stays taken while two calls go on, so that a third that has to cut its sequence waits for both.
 *
 * A batch has at most one long step, which evaluates several tokens of a prompt; calls take it in rotation. The size of
 * these steps is measured for one of them: several would delay running streams and aborts.
 */
export class StepBatcher {
  #running = 0;
  #waiting: (() => void)[] = [];
  #waitingLong: (() => void)[] = [];
  #atEnd: (() => void)[] = [];
  #scheduled = false;

  /** Whether no other call has a step that runs or waits. To be asked between two steps of a call. */
  get isIdle(): boolean {
    return this.#running + this.#waiting.length + this.#waitingLong.length === 0;
  }

  /** Runs a step in the next batch; a long one in the next batch that has none. Steps of one call must not overlap. */
  async step<T>(run: () => Promise<T>, { isLong = false } = {}): Promise<T> {
    await new Promise<void>((resolve) => {
      (isLong ? this.#waitingLong : this.#waiting).push(resolve);
      this.#schedule();
    });
    try {
      return await run();
    } finally {
      this.#running--;
      this.#schedule();
    }
  }

  /** Calls back once, after the batch that runs now, without delaying the next one. */
  atEnd(callback: () => void): void {
    this.#atEnd.push(callback);
    this.#schedule();
  }

  /** Not before all calls have seen what their steps brought, and asked for the next ones. */
  #schedule(): void {
    if (this.#running > 0 || this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => {
      this.#scheduled = false;
      this.#begin();
    });
  }

  #begin(): void {
    const starting = [...this.#waiting, ...this.#waitingLong.splice(0, 1)];
    this.#waiting = [];
    this.#running = starting.length;
    for (const start of starting) start();
    const ended = this.#atEnd.splice(0);
    if (ended.length === 0) return;
    setImmediate(() => {
      for (const callback of ended) callback();
    });
  }
}
