/** The part of an AbortSignal that our own code uses; every AbortSignal is one. */
export interface AbortFlag {
  readonly aborted: boolean;
  readonly reason: unknown;
  /** `run` is called once, at the abort. It is never called if the abort was earlier. */
  addEventListener(type: "abort", run: () => void): void;
  removeEventListener(type: "abort", run: () => void): void;
}

/**
 * An AbortController that creates its signal on first use: a signal costs Node several microseconds and most calls never
 * need one. Our own code takes this object itself, libraries take its `signal`.
 */
export class AbortSource implements AbortFlag {
  aborted = false;
  reason: unknown;
  /** The oldest listener. Most calls have only one, so it needs no list. */
  #first: (() => void) | null = null;
  #others: (() => void)[] | null = null;
  #controller: AbortController | null = null;

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  /** Aborts with this reason. Later calls have no effect. */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    // A listener may remove others; removed ones are skipped.
    for (let run = this.#takeFirst(); run !== null; run = this.#takeFirst()) run();
    this.#controller?.abort(reason);
  }

  addEventListener(_type: "abort", run: () => void): void {
    if (this.aborted || this.#first === run || this.#others?.includes(run)) return;
    if (this.#first === null) {
      this.#first = run;
      return;
    }
    this.#others ??= [];
    this.#others.push(run);
  }

  removeEventListener(_type: "abort", run: () => void): void {
    if (this.#first === run) {
      this.#takeFirst();
      return;
    }
    const at = this.#others?.indexOf(run) ?? -1;
    if (at >= 0) this.#others?.splice(at, 1);
  }

  /** Removes and returns the first listener; the next one becomes the first. */
  #takeFirst(): (() => void) | null {
    const first = this.#first;
    this.#first = this.#others?.shift() ?? null;
    return first;
  }
}
