import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";

/** The system's time. Its timers do not keep the process alive: the owner of work that must finish tracks it. */
export interface SystemClock {
  now(): number;
  monotonic(): number;
  after(ms: number, run: () => void): () => void;
  /** Timers of this clock that have neither fired nor been cancelled: a number that grows at rest shows a leak. */
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

/** A multiple of 3, so that base64 needs no padding. */
const blockBytes = 3072;

/**
 * Ids from the system's secure random numbers. A request id begins with its time (48 bits of milliseconds, as in UUIDv7),
 * because a store writes ids that grow to few pages of its index and random ones to a page each; 80 bits are random.
 */
export function createRandomIds(): { requestId(): string; text(prefix: string, length?: number): string } {
  const takeHex = createPool(() => randomBytes(blockBytes).toString("hex"));
  // Each character of base64 is equally likely, and stays so among letters and digits when the other two are left out.
  const takeText = createPool(() => randomBytes(blockBytes).toString("base64").replace(/[+/]/g, ""));
  let timeMs = 0;
  let timeHex = "";
  return {
    requestId() {
      const nowMs = Date.now();
      if (nowMs !== timeMs) {
        timeMs = nowMs;
        timeHex = nowMs.toString(16).padStart(12, "0");
      }
      return `req_${timeHex}${takeHex(20)}`;
    },
    text: (prefix, length = 24) => prefix + takeText(length),
  };
}

/** Returns successive parts of random text, created in blocks, because each system call is expensive. */
function createPool(makeBlock: () => string): (length: number) => string {
  let block = "";
  let used = 0;
  return (length) => {
    while (block.length - used < length) {
      block = block.slice(used) + makeBlock();
      used = 0;
    }
    used += length;
    return block.slice(used - length, used);
  };
}
