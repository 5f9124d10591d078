import { readdirSync } from "node:fs";
import { setPriority } from "node:os";

/**
 * The nice value of V8's helper threads. With that of requests, 0, four helpers that mark garbage take turns with the event
 * loop on a small machine: polite clients beside a flood wait 40 to 70 ms at p99, at 10 about 30, at 15 about 20. But the event
 * loop waits for a helper that has begun its part of a collection, and beside another busy program a helper at 15 runs so
 * rarely that requests then waited for up to 87 ms; at 10 up to 23, at 0 up to 14.
 */
const niceness = 10;
/** Threads before the helpers, in the order of their start: the event loop, and the one that delays V8's tasks. */
const earlier = 2;
/** Node's default of --v8-pool-size, which sets the number of helpers. */
const helpers = 4;

/**
 * Lets requests take precedence over the threads in which V8 collects garbage and compiles. Linux only, because priorities
 * are of threads there. Call it at the start of the process, when few other threads exist.
 */
export function lowerV8Threads(): void {
  if (process.platform !== "linux") return;
  try {
    // Node 20 does not name its threads, but starts V8's first.
    const threads = readdirSync("/proc/self/task").map(Number);
    threads.sort((a, b) => a - b);
    for (const thread of threads.slice(earlier, earlier + helpers)) setPriority(thread, niceness);
  } catch {
    // Some sandboxes have no /proc or no priorities. Everything works without.
  }
}
