import type { Clock } from "../../src/domain/call/ports.js";

interface Timer {
  readonly atMs: number;
  readonly run: () => void;
}

/** A clock that only moves when a test advances it. `monotonic` and `now` move together. */
export class FakeClock implements Clock {
  #nowMs: number;
  readonly #timers = new Set<Timer>();

  constructor(nowMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = nowMs;
  }

  /** Timers that are waiting. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#nowMs;
  }

  monotonic(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves time forward, and runs the timers that become due, the earliest first. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#nowMs = due.atMs;
      due.run();
    }
    this.#nowMs = untilMs;
  }
}
