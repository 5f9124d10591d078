import type { Clock } from "../domain/call/ports.js";

/** A clock that knows how many of its timers are pending. */
export interface CountedClock extends Clock {
  /** Timers that have neither fired nor been cancelled. */
  readonly pending: number;
}

/**
 * Counts the timers of requests (deadlines, queue waits, paces), which Node's own list leaves out because they do not
 * keep the process alive. At rest the count is that of an idle service: one that grows shows a leak.
 */
export function countTimers(clock: Clock): CountedClock {
  let pending = 0;
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after(ms, run) {
      let open = true;
      const end = (): boolean => {
        if (!open) return false;
        open = false;
        pending -= 1;
        return true;
      };
      pending += 1;
      const cancel = clock.after(ms, () => {
        if (end()) run();
      });
      return () => {
        if (end()) cancel();
      };
    },
    get pending() {
      return pending;
    },
  };
}
