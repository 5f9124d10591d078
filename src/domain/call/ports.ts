import type { AbortFlag } from "../../lib/abort-source.js";

/** Ports that the whole domain needs. Each has a real and a test implementation. */

/** Time. Nothing in the domain reads the system's clock. */
export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  now(): number;
  /** Milliseconds that never go back, for durations. */
  monotonic(): number;
  /** Calls `run` once after `ms`; the returned function cancels it. Does not keep the process alive. */
  after(ms: number, run: () => void): () => void;
}

/** Resolves after `ms`, or when the signal aborts. It does not keep the process alive. */
export function pause(clock: Pick<Clock, "after">, ms: number, signal?: AbortFlag): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      cancelTimer();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancelTimer = clock.after(ms, end);
    signal?.addEventListener("abort", end);
  });
}

/** Random ids from a-z, A-Z, 0-9 with at least 5.9 bits per character. */
export interface IdSource {
  /** `req_` and 32 hex digits (HDR-1). */
  requestId(): string;
  /** `prefix` and `length` characters; default 24. */
  text(prefix: string, length?: number): string;
}

/** Structured log, in pino's argument order. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A change in the store, by any replica. Caches read the changed records again before their next use. */
export type StateChange =
  | { readonly kind: "key" | "session" | "endpoint"; readonly id: string }
  | { readonly kind: "limits" | "thresholds" | "settings" | "upstreams" | "drains" }
  /** Changes may have been missed: every cache must read again. */
  | { readonly kind: "lost_link" };

export interface ChangeFeed {
  /** Returns the function that unsubscribes. A listener never throws. */
  subscribe(listener: (change: StateChange) => void): () => void;
  /** False while changes by other replicas do not arrive: nothing may be cached (KEY-11). */
  readonly isLinked: boolean;
  /** Whether no change can be missed, because no other process writes the store. */
  readonly isComplete: boolean;
}
