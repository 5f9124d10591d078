import type { ServerResponse } from "node:http";
import { createSampler } from "../../lib/sampler.js";

/** Callbacks for one watched response. */
export interface WatchedEvents {
  /** The reader has read nothing for stallMs() although bytes wait for it. Called once. */
  stalled(): void;
  /** Nothing was written for keepAliveMs(). Called again after every further keepAliveMs() of silence. */
  silent?(): void;
}

export interface Watched {
  /** Something was written: restarts the silence interval. */
  touched(): void;
  /** Ends the watch. */
  done(): void;
}

export interface ResponseWatch {
  watch(res: ServerResponse, on: WatchedEvents): Watched;
  /** Responses being watched. */
  readonly size: number;
  close(): void;
}

/** Times are read at every check, so that they may change while responses are watched. */
export interface ResponseWatchOptions {
  /** Interval of the checks; callbacks are late by at most this. */
  readonly intervalMs: () => number;
  readonly stallMs: () => number;
  readonly keepAliveMs: () => number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/**
 * Finds stalled readers and silent streams with one timer for all responses: a timer per token or per response would cost
 * more than the tokens.
 */
export function createResponseWatch({ intervalMs, stallMs, keepAliveMs, now }: ResponseWatchOptions): ResponseWatch {
  interface Entry {
    readonly res: ServerResponse;
    readonly on: WatchedEvents;
    readonly drained: () => void;
    /** When a check first found the response waiting for its reader; null: it does not wait. */
    blockedSinceMs: number | null;
    touchedAtMs: number;
  }

  const entries = createSampler<Entry>(intervalMs, (entry) => {
    const nowMs = now();
    if (!isWaiting(entry.res)) entry.blockedSinceMs = null;
    else if (entry.blockedSinceMs === null) entry.blockedSinceMs = nowMs;
    else if (nowMs - entry.blockedSinceMs >= stallMs()) {
      release(entry);
      entry.on.stalled();
      return;
    }
    if (nowMs - entry.touchedAtMs >= keepAliveMs()) {
      entry.touchedAtMs = nowMs;
      entry.on.silent?.();
    }
  });

  function release(entry: Entry): void {
    entry.res.off("drain", entry.drained);
    entries.delete(entry);
  }

  return {
    watch(res, on) {
      const entry: Entry = {
        res,
        on,
        // A response may drain and fill again between two checks: that reader is slow, not stalled.
        drained: () => {
          entry.blockedSinceMs = null;
        },
        blockedSinceMs: null,
        touchedAtMs: now(),
      };
      res.on("drain", entry.drained);
      entries.add(entry);
      return {
        touched() {
          entry.touchedAtMs = now();
        },
        done: () => release(entry),
      };
    },
    get size() {
      return entries.size;
    },
    close: () => entries.close(),
  };
}

/** An ended response emits no more `drain`, but its last bytes may still wait for the reader. */
function isWaiting(res: ServerResponse): boolean {
  return res.writableEnded ? !res.writableFinished : res.writableNeedDrain;
}
