import { randomBytes } from "node:crypto";
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

/** A multiple of 3, so that base64 needs no padding. */
const blockBytes = 3072;

/** Random ids from the system's secure random numbers. */
export function createRandomIds(): { requestId(): string; text(prefix: string, length?: number): string } {
  const takeHex = createPool(() => randomBytes(blockBytes).toString("hex"));
  // Each character of base64 is equally likely, and stays so among letters and digits when the other two are left out.
  const takeText = createPool(() => randomBytes(blockBytes).toString("base64").replace(/[+/]/g, ""));
  return {
    requestId: () => `req_${takeHex(32)}`,
    text: (prefix, length = 24) => prefix + takeText(length),
  };
}

/** Random text in order of use; made in blocks, because one system call and one buffer per id is what costs. */
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
