/** A timer that is later than that was held up by more than a moment of work. */
const pausedMsMin = 20;

/**
 * Calls `expired` when `timeoutMs` are over and what has come from the server by then is read: where this process was busy
 * at that moment, an answer may wait in its socket. If it stood still for longer, for a collection of garbage or because
 * the machine was elsewhere, as much time is added as was lost, once and at most `timeoutMs`. A pause of ours is not an
 * outage of the store.
 */
export class Deadline {
  #timer: NodeJS.Timeout;
  #last: NodeJS.Immediate | null = null;

  constructor(timeoutMs: number, expired: () => void) {
    const dueAtMs = performance.now() + timeoutMs;
    // Immediates run after sockets were read.
    const expire = (): void => {
      this.#last = setImmediate(expired);
    };
    this.#timer = setTimeout(() => {
      const lateMs = Math.min(timeoutMs, performance.now() - dueAtMs);
      if (lateMs < pausedMsMin) expire();
      else this.#timer = setTimeout(expire, lateMs);
    }, timeoutMs);
  }

  cancel(): void {
    clearTimeout(this.#timer);
    if (this.#last !== null) clearImmediate(this.#last);
  }
}
