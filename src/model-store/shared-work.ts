interface Running<Progress, Result> {
  readonly result: Promise<Result>;
  readonly controller: AbortController;
  readonly listeners: Set<(progress: Progress) => void>;
}

/** Does its work: reports progress and ends early when the signal says so. */
export type Work<Progress, Result> = (onProgress: (progress: Progress) => void, signal: AbortSignal) => Promise<Result>;

/** Work that several callers wait for, done once. It is aborted when the last of them has left. */
export class SharedWork<Progress, Result> {
  readonly #running = new Map<string, Running<Progress, Result>>();

  /**
   * Joins the work of that key, or starts it. A caller whose signal ends leaves with the signal's reason; the last one
   * leaves when the aborted work has ended.
   */
  async run(key: string, work: Work<Progress, Result>, onProgress: (progress: Progress) => void, signal: AbortSignal) {
    for (let old = this.#running.get(key); old?.controller.signal.aborted; old = this.#running.get(key)) {
      await old.result.catch(() => null);
    }
    signal.throwIfAborted();
    return this.#join(this.#running.get(key) ?? this.#start(key, work), onProgress, signal);
  }

  #start(key: string, work: Work<Progress, Result>): Running<Progress, Result> {
    const controller = new AbortController();
    const listeners = new Set<(progress: Progress) => void>();
    const report = (progress: Progress) => {
      for (const listener of listeners) listener(progress);
    };
    const result = work(report, controller.signal).finally(() => this.#running.delete(key));
    const running = { result, controller, listeners };
    this.#running.set(key, running);
    return running;
  }

  #join(
    { result, controller, listeners }: Running<Progress, Result>,
    onProgress: (progress: Progress) => void,
    signal: AbortSignal,
  ) {
    // Of its own, so that one function given by two callers counts twice.
    const listener = (progress: Progress) => onProgress(progress);
    listeners.add(listener);
    return new Promise<Result>((resolve, reject) => {
      const leave = () => {
        listeners.delete(listener);
        if (listeners.size === 0) controller.abort(signal.reason);
        else reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      const settle = () => signal.removeEventListener("abort", leave);
      result.then(resolve, reject).finally(settle);
    });
  }
}
