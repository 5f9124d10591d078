import type { Clock, Logger } from "../call/ports.js";
import type { ResponseStore } from "./response-store.js";

interface ResponsePurgeDeps {
  readonly store: Pick<ResponseStore, "purge">;
  readonly clock: Pick<Clock, "after">;
  /** Store time. */
  readonly now: () => number;
  /** How long a response is stored; 0: responses are not stored, and those from before are removed. */
  readonly keepMs: number;
  readonly log: Logger;
}

/** Interval of the purge: an expired response leaves the store within a minute. */
const everyMs = 30_000;
/** Pause between two steps, so that other writes come first. */
const stepEveryMs = 50;
/**
 * Maximum responses that one step removes. Each has up to 1.4 MB, so a step takes the store some milliseconds, or a tenth of
 * a second for the largest ones.
 */
const stepMax = 100;

/** Removes expired responses in small steps. Returns the function that stops it. Outages are retried at the next interval. */
export function startResponsePurge({ store, clock, now, keepMs, log }: ResponsePurgeDeps): () => void {
  let isStopped = false;
  let cancelTimer = clock.after(stepEveryMs, () => void step());
  async function step(): Promise<void> {
    let purged: number | null = null;
    try {
      purged = await store.purge(keepMs === 0 ? Number.MAX_SAFE_INTEGER : now() - keepMs + 1, stepMax);
    } catch (err) {
      log.warn({ err }, "expired responses could not be removed; retrying later");
    }
    // If responses are not stored, none can expire after all have been removed.
    const isDone = keepMs === 0 && purged !== null && purged < stepMax;
    if (!isStopped && !isDone) cancelTimer = clock.after(purged === stepMax ? stepEveryMs : everyMs, () => void step());
  }
  return () => {
    isStopped = true;
    cancelTimer();
  };
}
