/** A timer that is later than that was held up; others are late by a millisecond or two. */
const lateMsMin = 5;

/**
 * Calls `expired` when `timeoutMs` are over. If this process stood still at that moment, for a collection of garbage or
 * because the machine was busy elsewhere, what the server said meanwhile is not read yet: as much time is added as was
 * lost, once and at most `timeoutMs`, so that a pause of ours is not taken for an outage of the store.
 */
export class Deadline {
  #timer: NodeJS.Timeout;

  constructor(timeoutMs: number, expired: () => void) {
    const dueAtMs = performance.now() + timeoutMs;
    this.#timer = setTimeout(() => {
      const lateMs = Math.min(timeoutMs, performance.now() - dueAtMs);
      if (lateMs < lateMsMin) expired();
      else this.#timer = setTimeout(expired, lateMs);
    }, timeoutMs);
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
