import type { ServerResponse } from "node:http";
import { createSampler } from "../../lib/sampler.js";

/** What is told about one watched response. */
export interface WatchedEvents {
  /** The reader took nothing for stallMs() although it has something to take. Called once. */
  stalled(): void;
  /** `touched` was not called for keepAliveMs(). Called again after every further keepAliveMs() of silence. */
  silent?(): void;
}

export interface Watched {
  /** Something was written: silence starts anew. */
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

/** Times are asked for at every look, so that they may change while responses are watched. */
export interface ResponseWatchOptions {
  /** How often all responses are looked at; events are late by at most this. */
  readonly intervalMs: () => number;
  readonly stallMs: () => number;
  readonly keepAliveMs: () => number;
  /** Milliseconds that never go back. */
  readonly now: () => number;
}

/**
 * Finds readers that do not read, and streams that say nothing, with one timer for all responses: a timer per token or
 * per response would cost more than the tokens.
 */
export function createResponseWatch({ intervalMs, stallMs, keepAliveMs, now }: ResponseWatchOptions): ResponseWatch {
  interface Entry {
    readonly res: ServerResponse;
    readonly on: WatchedEvents;
    readonly drained: () => void;
    /** Since when the response was seen to wait for its reader; null: it does not. */
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
        // A response may drain and fill again between two looks: that is a slow reader, not a stalled one.
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

/** An ended response needs no drain any more, but its last bytes may still wait for the reader. */
function isWaiting(res: ServerResponse): boolean {
  return res.writableEnded ? !res.writableFinished : res.writableNeedDrain;
}
