import type { IncomingMessage } from "node:http";
import { createSampler } from "../../lib/sampler.js";

/** A sum of bytes that many holders share. */
export interface ByteBudget {
  /** Takes `bytes`, or nothing and answers false when that would pass the maximum. */
  take(bytes: number): boolean;
  /** Returns what was taken before. */
  give(bytes: number): void;
  readonly used: number;
}

/**
 * A budget of `bytesMax()` bytes, e.g. for all request bodies that are being received at one moment. When it shrinks
 * below what is taken, nothing more is given out until enough has come back.
 */
export function createByteBudget(bytesMax: () => number): ByteBudget {
  let used = 0;
  return {
    take(bytes) {
      if (used + bytes > bytesMax()) return false;
      used += bytes;
      return true;
    },
    give(bytes) {
      used -= bytes;
    },
    get used() {
      return used;
    },
  };
}

export interface UploadWatch {
  /**
   * Watches a request body from now on; begin when the body is being read, since a body that nobody reads comes to a
   * halt by itself. `tooSlow` is called once at most. The returned function ends the watch; it also ends by itself when
   * the body is complete or the connection gone.
   */
  watch(req: IncomingMessage, tooSlow: () => void): () => void;
  readonly size: number;
  close(): void;
}

/** Times and rates are asked for at every look, so that they may change while bodies are watched. */
export interface UploadWatchOptions {
  /** How often all bodies are looked at; default: once a second, or more often when the grace is shorter. */
  readonly intervalMs?: () => number;
  /** Bytes per second that must arrive. */
  readonly bytesPerSecondMin: () => number;
  /** Length of the spans over which the rate is judged, and so the time until the first judgement. */
  readonly graceMs: () => number;
  /** Milliseconds that never go back. */
  readonly now: () => number;
}

const intervalMsMax = 1_000;

/** Finds bodies that arrive drop by drop. Sampled from the socket's byte counter: nothing is done per chunk. */
export function createUploadWatch({
  bytesPerSecondMin,
  graceMs,
  now,
  intervalMs = () => Math.min(intervalMsMax, graceMs()),
}: UploadWatchOptions): UploadWatch {
  interface Upload {
    readonly req: IncomingMessage;
    readonly tooSlow: () => void;
    /** Start of the span that is being judged. */
    sinceMs: number;
    bytesBefore: number;
  }

  const uploads = createSampler<Upload>(intervalMs, (upload) => {
    const { req } = upload;
    if (req.complete || req.destroyed) return uploads.delete(upload);
    const nowMs = now();
    const spanMs = nowMs - upload.sinceMs;
    if (spanMs < graceMs()) return;
    const bytes = req.socket.bytesRead;
    if ((bytes - upload.bytesBefore) * 1000 < bytesPerSecondMin() * spanMs) {
      uploads.delete(upload);
      upload.tooSlow();
      return;
    }
    upload.sinceMs = nowMs;
    upload.bytesBefore = bytes;
  });

  return {
    watch(req, tooSlow) {
      const upload: Upload = { req, tooSlow, sinceMs: now(), bytesBefore: req.socket.bytesRead };
      uploads.add(upload);
      return () => uploads.delete(upload);
    },
    get size() {
      return uploads.size;
    },
    close: () => uploads.close(),
  };
}
