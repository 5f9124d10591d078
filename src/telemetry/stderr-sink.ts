import { pino } from "pino";
import type { LogSink } from "./logger.js";

export interface StderrSink extends LogSink {
  /** Writes what is pending, before the process ends. Gives up on a reader that does not read. */
  flush(): void;
}

/**
 * Lines are written together, when there are this many characters or when the time is over. Half of what a pipe holds,
 * so that a write seldom waits for the reader.
 */
const togetherChars = 32 * 1024;
const togetherMs = 100;

/** Lines that may wait for a slow reader of stderr; what comes beyond is dropped, for it must not take the memory. */
const pendingBytesMax = 16 * 1024 * 1024;

/** How often a last write is tried, 100 ms apart, while stderr's reader does not read. */
const lastTries = 10;

/**
 * Writes to stderr in the background, in order. Lines are gathered here and not by pino's destination, which measures
 * what it has gathered anew with every line.
 */
export function openStderrSink(): StderrSink {
  let triesLeft = Number.POSITIVE_INFINITY;
  const destination = pino.destination({
    fd: 2,
    sync: false,
    maxLength: pendingBytesMax,
    retryEAGAIN: () => triesLeft-- > 0,
  });
  // A closed stderr must not take the service down, and there is nowhere left to tell it.
  destination.on("error", () => {});
  let together = "";
  let handOverSoon: NodeJS.Timeout | null = null;
  let ending = false;
  const handOver = (): void => {
    if (handOverSoon !== null) clearTimeout(handOverSoon);
    handOverSoon = null;
    const lines = together;
    together = "";
    if (lines !== "") destination.write(lines);
  };
  return {
    write(line) {
      together += line;
      // Nobody flushes a second time: a line after the last flush is left to the destination, which knows of the exit.
      if (ending || together.length >= togetherChars) handOver();
      else handOverSoon ??= setTimeout(handOver, togetherMs).unref();
    },
    flush() {
      ending = true;
      triesLeft = lastTries;
      try {
        handOver();
        destination.flushSync();
      } catch {
        // The reader is stuck or gone: the process ends without these lines.
      }
    },
  };
}
