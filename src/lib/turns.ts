/** Time that a piece of long work may take before other work of the event loop runs. */
const turnMs = 2;

/** Work that waits for a turn. One piece of long work runs in each turn of the event loop, whatever the number of requests. */
const waiting: (() => void)[] = [];

function startNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(startNext);
}

/** Divides long work into turns of the event loop. Create one when the work begins. */
export class Turns {
  #endsAtMs = performance.now() + turnMs;

  /** Call it after each step of the work, of at most about a millisecond: waits for another turn when this one is over. */
  async next(): Promise<void> {
    if (performance.now() < this.#endsAtMs) return;
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) setImmediate(startNext);
    });
    this.#endsAtMs = performance.now() + turnMs;
  }
}
