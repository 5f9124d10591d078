/**
 * Lets all calls of a context take their steps together: a turn runs one step of every call that waits, and the next
 * turn begins when all of them are done.
 *
 * Left alone, the binding begins its next batch with the call that is ready first. Then calls are evaluated one after
 * the other that could be in one batch, and its lock stays taken for as long as two calls go on: a third one that has
 * to cut back its sequence would wait for the end of both.
 *
 * Of the long steps, which evaluate several tokens of a prompt, a turn runs one, and the calls that have some take it by
 * turns: pieces are measured for one of them, and all together they would hold up running streams, and every abort.
 */
export class Turns {
  #running = 0;
  #waiting: (() => void)[] = [];
  #waitingLong: (() => void)[] = [];
  #atEnd: (() => void)[] = [];
  #scheduled = false;

  /** Whether no other call has a step that runs or waits. To be asked between two steps of a call. */
  get isIdle(): boolean {
    return this.#running + this.#waiting.length + this.#waitingLong.length === 0;
  }

  /** Runs a step in the next turn, a long one when it is its turn. Steps of one call must not overlap. */
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

  /** Calls back once, after the turn that runs now and beside the next one, whose beginning it does not put off. */
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
