import { pino } from "pino";
import type { LogSink } from "./logger.js";

interface StderrSink extends LogSink {
  /** Writes what is pending, before the process ends. Gives up on a reader that does not read. */
  flush(): void;
}

/**
 * Lines are written together, when there are about this many bytes or when the time is over. Half of what a pipe holds,
 * so that a write seldom waits for the reader.
 */
const togetherBytes = 32 * 1024;
const togetherMs = 100;
/** In UTF-8, of one UTF-16 code unit. */
const bytesPerCodeMax = 3;

/** Lines that may wait for a slow reader of stderr; what comes beyond is dropped, for it must not take the memory. */
const pendingBytesMax = 16 * 1024 * 1024;

/** How often a last write is tried, 100 ms apart, while stderr's reader does not read. */
const lastTries = 10;

/** What pino's destination is when it is opened for bytes; its own type knows of text only. */
interface ByteDestination {
  write(bytes: Uint8Array): void;
  flushSync(): void;
  on(event: "error", run: () => void): void;
}

/**
 * Writes to stderr in the background, in order. Lines are gathered here and not by pino's destination, which measures
 * what it has gathered anew with every line; and as bytes at once, because a text of many pieces costs more to put
 * together the longer they lie about.
 */
export function openStderrSink(): StderrSink {
  let triesLeft = Number.POSITIVE_INFINITY;
  const destination = pino.destination({
    fd: 2,
    sync: false,
    maxLength: pendingBytesMax,
    retryEAGAIN: () => triesLeft-- > 0,
    contentMode: "buffer",
  }) as unknown as ByteDestination;
  // A closed stderr must not take the service down, and there is nowhere left to tell it.
  destination.on("error", () => {});
  let together = Buffer.allocUnsafeSlow(togetherBytes);
  let used = 0;
  let handOverSoon: NodeJS.Timeout | null = null;
  let ending = false;
  const handOver = (): void => {
    if (handOverSoon !== null) clearTimeout(handOverSoon);
    handOverSoon = null;
    if (used === 0) return;
    destination.write(together.subarray(0, used));
    // The destination keeps the bytes until they are written.
    together = Buffer.allocUnsafeSlow(togetherBytes);
    used = 0;
  };
  return {
    write(line) {
      const bytesMax = line.length * bytesPerCodeMax;
      if (bytesMax > togetherBytes - used) handOver();
      if (bytesMax > togetherBytes) destination.write(Buffer.from(line));
      else used += together.write(line, used);
      // Nobody flushes a second time: a line after the last flush is left to the destination, which knows of the exit.
      if (ending) handOver();
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
