import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";

const mebibyte = 1024 * 1024;
const intervalMs = 10_000;
/** Less garbage than this is not worth a collection. */
const worthwhileBytes = 32 * mebibyte;
/** Measured memory of a call that waits for its client. */
const callBytes = 32 * 1024;
/** Share of an interval. A busier event loop allocates enough for V8 to collect without being asked. */
const utilizationMax = 0.5;
/**
 * More external memory than V8 lets a heap gain between two collections (64 MiB). V8 answers with a collection in steps, most
 * of it in other threads; `gc()` would stop the event loop for all of it. The pages are never touched, so they cost no memory.
 */
const pressureBytes = 65 * mebibyte;

export interface IdleCollectionOptions {
  /** Number of calls now: what ended calls have left is garbage that the size of the heap does not show. */
  readonly calls: () => number;
  readonly intervalMs?: number;
}

/**
 * Gives back the memory of a busy time. V8 collects old objects only when more have been allocated, so a process that has
 * become quiet would keep its garbage for minutes. Every 10 seconds, this starts a collection if the loop is mostly idle and at
 * least 32 MiB can be garbage. Returns a function that stops it.
 */
export function collectWhenIdle({ calls, intervalMs: everyMs = intervalMs }: IdleCollectionOptions): () => void {
  let loop: EventLoopUtilization = performance.eventLoopUtilization();
  let leastBytes = collectableBytes();
  let mostCalls = calls();
  const look = (): void => {
    const before = loop;
    loop = performance.eventLoopUtilization();
    const bytes = collectableBytes();
    leastBytes = Math.min(leastBytes, bytes);
    mostCalls = Math.max(mostCalls, calls());
    const garbageBytes = bytes - leastBytes + (mostCalls - calls()) * callBytes;
    if (garbageBytes < worthwhileBytes || performance.eventLoopUtilization(loop, before).utilization > utilizationMax)
      return;
    new ArrayBuffer(pressureBytes);
    // The next interval starts with what this collection leaves.
    leastBytes = Number.POSITIVE_INFINITY;
    mostCalls = calls();
  };
  const timer = setInterval(look, everyMs).unref();
  return () => clearInterval(timer);
}

/** Size of the old generation and of the buffers outside the heap, in bytes. V8 collects young objects often enough. */
function collectableBytes(): number {
  const old = getHeapSpaceStatistics().filter(({ space_name: name }) => !name.startsWith("new_"));
  return old.reduce((sum, space) => sum + space.space_used_size, getHeapStatistics().external_memory);
}
