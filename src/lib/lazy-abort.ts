/** What a wait has to know of a signal. An AbortSignal is one, too. */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  /** `run` is called once, at the abort; never when that was before. */
  addEventListener(type: "abort", run: () => void): void;
  removeEventListener(type: "abort", run: () => void): void;
}

/**
 * An AbortController whose signal is made for whoever asks for it: one costs Node several microseconds, and most calls
 * end without having needed it. Code of our own takes the object itself, libraries take its `signal`.
 */
export class LazyAbort implements StopSignal {
  /** Few, mostly one: a list costs less than a Set. */
  readonly #listeners: (() => void)[] = [];
  #aborted = false;
  #reason: unknown;
  #controller: AbortController | null = null;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first abort counts. */
  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    // One that is told may remove others, which then are not told.
    for (let run = this.#listeners.shift(); run !== undefined; run = this.#listeners.shift()) run();
    this.#controller?.abort(reason);
  }

  addEventListener(_type: "abort", run: () => void): void {
    if (!this.#aborted && !this.#listeners.includes(run)) this.#listeners.push(run);
  }

  removeEventListener(_type: "abort", run: () => void): void {
    // Mostly the last one, which leaves without a list being made of it.
    if (this.#listeners.at(-1) === run) {
      this.#listeners.pop();
      return;
    }
    const at = this.#listeners.indexOf(run);
    if (at >= 0) this.#listeners.splice(at, 1);
  }
}
