import { performance } from "node:perf_hooks";
import { MemberList, type Placed } from "./collections.js";

/** The system's time. Its timers do not keep the process alive: work that must finish has to be awaited elsewhere. */
export interface SystemClock {
  now(): number;
  monotonic(): number;
  after(ms: number, run: () => void): () => void;
  /** Timers of this clock that have neither fired nor been cancelled: a number that grows while idle shows a leak. */
  readonly pending: number;
}

/** The functions of the returned clock can be called without `this`. */
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
  /** Removes all members and stops the timer. */
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
    // Stopped here and not in `delete`, because a server with one request at a time would then start a timer for each.
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

/** Default for how far store time may be ahead of the machine's clock. */
export const defaultLeadMaxMs = 300_000;

interface StoreTimeOptions {
  /** Newest time in the store. */
  readonly seenAtMs?: number;
  /** How far store time may be ahead of the machine's clock. If it is further ahead, it follows the clock back. */
  readonly leadMaxMs?: number;
  /** Called for each jump of the clock by more than `leadMaxMs`; negative: back. */
  readonly onJump?: (byMs: number) => void;
}

/**
 * Wall-clock time that goes back only when the machine's clock is set back by more than `leadMaxMs` (E-22). It starts at the
 * time of the newest stored settlement. While it is ahead of the clock it runs at half speed, so that the clock catches up.
 */
export class StoreTime {
  readonly #clock: Pick<SystemClock, "now" | "monotonic">;
  readonly #leadMaxMs: number;
  readonly #onJump: (byMs: number) => void;
  #storeMs: number;
  /** The newest time that was ever given out or stored. */
  #newestMs: number;
  #clockMs: number;
  #monotonicMs: number;

  constructor(clock: Pick<SystemClock, "now" | "monotonic">, options: StoreTimeOptions = {}) {
    const { seenAtMs = 0, leadMaxMs = defaultLeadMaxMs, onJump = () => {} } = options;
    this.#clock = clock;
    this.#leadMaxMs = leadMaxMs;
    this.#onJump = onJump;
    this.#clockMs = clock.now();
    this.#monotonicMs = clock.monotonic();
    this.#newestMs = Math.max(seenAtMs, this.#clockMs);
    this.#storeMs = this.#newestMs - this.#clockMs > leadMaxMs ? this.#clockMs : this.#newestMs;
  }

  /** Whole milliseconds since 1970. */
  readonly now = (): number => {
    const clockMs = this.#clock.now();
    const monotonicMs = this.#clock.monotonic();
    const passedMs = monotonicMs - this.#monotonicMs;
    const steppedMs = clockMs - this.#clockMs - passedMs;
    const slowMs = this.#storeMs + passedMs / 2;
    this.#clockMs = clockMs;
    this.#monotonicMs = monotonicMs;
    this.#storeMs = slowMs - clockMs > this.#leadMaxMs ? clockMs : Math.max(clockMs, slowMs);
    if (this.#storeMs > this.#newestMs) this.#newestMs = this.#storeMs;
    if (Math.abs(steppedMs) > this.#leadMaxMs) this.#onJump(steppedMs);
    return Math.floor(this.#storeMs);
  };

  /** How far the newest time is ahead of the machine's clock, which was set back; 0 otherwise. */
  aheadMs(): number {
    this.now();
    return Math.max(0, Math.floor(this.#newestMs) - this.#clockMs);
  }
}

/** Time that a part of long work may take before other work of the event loop runs. */
const turnMs = 1;

/** Long work that waits to continue. One part runs per iteration of the event loop, regardless of the number of requests. */
const waiting: (() => void)[] = [];

function startNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(startNext);
}

/** Divides long work over iterations of the event loop. Create an instance when the work begins. */
export class Turns {
  #endsAtMs = performance.now() + turnMs;

  /** Call it after each step of at most about a millisecond. After 1 ms it waits for a later iteration of the event loop. */
  async next(): Promise<void> {
    if (performance.now() < this.#endsAtMs) return;
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) setImmediate(startNext);
    });
    this.#endsAtMs = performance.now() + turnMs;
  }
}

/**
 * Returns a function that gives one promise to all its callers in a turn of the event loop. It resolves at the end of the
 * turn, when all sockets that were ready have been read. Work that is prepared during a turn and done together at its end
 * uses the same code and data many times in a row, instead of alternating with other steps, so they stay in the processor's
 * caches: under load a request costs half of the processor time. Nothing waits for a timer or for a further turn.
 */
export function createTurnEnd(): () => Promise<void> {
  let current: Promise<void> | null = null;
  return () => {
    current ??= new Promise((resolve) => {
      setImmediate(() => {
        current = null;
        resolve();
      });
    });
    return current;
  };
}

/**
 * Returns a function that runs what it is given at the end of the turn, in order, for the reason given at `createTurnEnd`. What
 * is added then runs a turn later. What it runs must not throw.
 */
export function createTurnBatch(): (run: () => void) => void {
  let waiting: (() => void)[] = [];
  const runAll = (): void => {
    const all = waiting;
    waiting = [];
    for (const run of all) run();
  };
  return (run) => {
    if (waiting.length === 0) setImmediate(runAll);
    waiting.push(run);
  };
}
