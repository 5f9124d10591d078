import type { Clock } from "../../domain/call/ports.js";

const beatMs = 1_000;
const beatsPerStallMin = 5;

export interface HeartbeatOptions {
  /** Silence after which the other side counts as hung. */
  readonly stallMs: number;
  /** Asks the other side for a sign of life. */
  ask(count: number): void;
  /** Called once, at most `stallMs` after the last sign of life. The heartbeat has stopped then. */
  onStall(): void;
}

/**
 * Finds out that the other side hangs, though its process lives. Silence is counted in questions that went unanswered,
 * not in time: when this process itself was stopped for a minute, the answers wait behind the timer.
 */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #options: HeartbeatOptions;
  readonly #everyMs: number;
  #asked = 0;
  #unanswered = 0;
  #cancelTimer: (() => void) | null = null;

  constructor(clock: Clock, options: HeartbeatOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#everyMs = Math.min(beatMs, options.stallMs / beatsPerStallMin);
    this.#ask();
  }

  /** The other side said something. */
  heard(): void {
    this.#unanswered = 0;
  }

  stop(): void {
    this.#cancelTimer?.();
  }

  #ask(): void {
    this.#options.ask(++this.#asked);
    this.#unanswered += 1;
    this.#cancelTimer = this.#clock.after(this.#everyMs, () => {
      // One beat less: the last answer may have come a whole beat before the first question that got none.
      if (this.#unanswered * this.#everyMs < this.#options.stallMs - this.#everyMs) this.#ask();
      else this.#options.onStall();
    });
  }
}
