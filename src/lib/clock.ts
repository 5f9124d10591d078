import { performance } from "node:perf_hooks";
import { MemberList, type Placed } from "./collections.js";

/** The system's time. Its timers do not keep the process alive: the owner of work that must finish tracks it. */
export interface SystemClock {
  now(): number;
  monotonic(): number;
  after(ms: number, run: () => void): () => void;
  /** Timers of this clock that have neither fired nor been cancelled: a number that grows while idle shows a leak. */
  readonly pending: number;
}

/** Its functions need no `this`. */
export function createSystemClock(): SystemClock {
  let pending = 0;
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    after(ms, run) {
      let isPending = true;
      const end = (): void => {
        if (isPending) pending -= 1;
        isPending = false;
      };
      pending += 1;
      const timer = setTimeout(() => {
        end();
        run();
      }, ms);
      timer.unref();
      return () => {
        clearTimeout(timer);
        end();
      };
    },
    get pending() {
      return pending;
    },
  };
}

/** A set whose members are sampled by one timer. */
interface Sampler<T extends Placed> {
  add(member: T): void;
  delete(member: T): void;
  readonly size: number;
  /** Forgets all members and stops the timer. */
  close(): void;
}

/**
 * Calls `look` for every member each `intervalMs()`, from one timer however many members there are. The timer runs while
 * there are members and does not keep the process alive; a changed interval applies from the next sample.
 */
export function createSampler<T extends Placed>(intervalMs: () => number, look: (member: T) => void): Sampler<T> {
  const members = new MemberList<T>();
  let timer: NodeJS.Timeout | undefined;
  let timerMs = 0;

  function start(): void {
    timerMs = intervalMs();
    timer = setInterval(tick, timerMs).unref();
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  function tick(): void {
    // Stopped here and not in `delete`: a server with one request at a time would start a timer per request.
    if (members.size === 0) stop();
    else if (timerMs !== intervalMs()) {
      stop();
      start();
    }
    for (const member of members.all()) look(member);
  }

  return {
    add(member) {
      members.add(member);
      if (timer === undefined) start();
    },
    delete(member) {
      members.delete(member);
    },
    get size() {
      return members.size;
    },
    close() {
      members.clear();
      stop();
    },
  };
}
