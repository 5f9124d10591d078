import { type Clock, pause } from "../call/ports.js";
import type { Claim } from "./delivery-queue.js";

/** Maximum deliveries of one claim: fewer while requests run, because the pauses between attempts delay the next claim. */
const claimedMax = { serving: 32, alone: 64 } as const;
/**
 * Attempts that are started together while no request runs. While requests run, half as many as there are requests, within
 * these bounds.
 */
const batchMax = 16;
const servingBatchMin = 4;
/** Maximum pause after a batch. */
const pauseMaxMs = 20;
/**
 * Maximum duration of a turn of the event loop that counts as idle; it includes the millisecond of the timer that measures
 * it.
 */
const idleTurnMs = 2;
/** A first attempt that starts later than this after its event is late. */
const lateMs = 100;
/** If a first attempt is later than this, all claimed deliveries start together. */
const veryLateMs = 1_000;

interface PaceDeps {
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
  /** Number of requests in this process; while any runs, it has priority. */
  readonly live: { readonly size: number };
}

interface Batch {
  /** Number of claims whose attempts start together. */
  readonly size: number;
  /** Maximum pause afterwards; null: no pause. */
  readonly pauseMaxMs: number | null;
}

/**
 * How fast deliveries start. While requests run, deliveries start in small batches and pause after each until the event loop
 * is idle, at most 20 ms, so that requests have priority for the time of the process (WH-52). If first attempts are late, the
 * pause is only one turn of the event loop, and if they are very late, there is none: deliveries then keep up with the
 * requests that cause them (E-30).
 */
export class DeliveryPace {
  readonly #deps: PaceDeps;

  constructor(deps: PaceDeps) {
    this.#deps = deps;
  }

  /** Maximum deliveries of the next claim. */
  get claimedMax(): number {
    return this.#deps.live.size > 0 ? claimedMax.serving : claimedMax.alone;
  }

  /** The next batch of these claims. */
  nextBatch(claims: readonly Pick<Claim, "attemptNumber" | "dueAtMs">[]): Batch {
    const delayMs = this.#delayMs(claims);
    if (delayMs > veryLateMs) return { size: claims.length, pauseMaxMs: null };
    const size = this.#batchSize();
    if (delayMs <= lateMs) return { size, pauseMaxMs };
    // After the last batch the next claim follows, during which the event loop takes its turn anyway.
    return { size, pauseMaxMs: size < claims.length ? 0 : null };
  }

  /** Pauses if requests run. */
  async giveWay(): Promise<void> {
    if (this.#deps.live.size > 0) await this.pause(pauseMaxMs);
  }

  /** Returns after an idle turn of the event loop or when no request runs, at the latest one turn after `maxMs`. */
  async pause(maxMs: number): Promise<void> {
    const { clock, live } = this.#deps;
    const untilMs = clock.monotonic() + maxMs;
    for (;;) {
      const beganAtMs = clock.monotonic();
      // The delay of a timer shows for how long the event loop was busy.
      await pause(clock, 0);
      const nowMs = clock.monotonic();
      if (live.size === 0 || nowMs - beganAtMs <= idleTurnMs || nowMs >= untilMs) return;
    }
  }

  #batchSize(): number {
    const { size } = this.#deps.live;
    return size === 0 ? batchMax : Math.min(batchMax, Math.max(servingBatchMin, Math.floor(size / 2)));
  }

  /** The longest delay of a first attempt; 0 if there is none among the claims. */
  #delayMs(claims: readonly Pick<Claim, "attemptNumber" | "dueAtMs">[]): number {
    const nowMs = this.#deps.now();
    return Math.max(0, ...claims.map(({ attemptNumber, dueAtMs }) => (attemptNumber === 1 ? nowMs - dueAtMs : 0)));
  }
}
