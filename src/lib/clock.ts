import { performance } from "node:perf_hooks";

/** The system's time. Timers do not keep the process alive: what must finish is tracked by whoever started it. */
export function createSystemClock(): {
  now(): number;
  monotonic(): number;
  after(ms: number, run: () => void): () => void;
} {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
