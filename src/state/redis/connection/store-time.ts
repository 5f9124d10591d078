import type { Clock } from "../../../domain/call/ports.js";

/**
 * The store's time between two of its answers. All that decides anything is decided by the server's own time inside a
 * script; this estimate names periods, tells waits and dates records, and is off by a round trip at most.
 */
export interface StoreTime {
  /** Wall-clock milliseconds of the store; the process's own until the store has answered once. */
  now(): number;
  /** Notes what the store's time was at some moment between two readings of the monotonic clock. */
  observe(storeMs: number, sentAtMs: number, receivedAtMs: number): void;
  /** For `observe`. */
  monotonic(): number;
  /** What scripts add to the server's time: 0 but in tests. Included in what scripts return and in what `now` tells. */
  readonly shiftMs: number;
}

export interface StoreTimeOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** For tests, which move the store's time. */
  readonly shiftMs?: () => number;
}

export function createStoreTime({ clock, shiftMs = () => 0 }: StoreTimeOptions): StoreTime {
  /** Store's unshifted time minus monotonic time; null before the first answer. */
  let offsetMs: number | null = null;
  return {
    now: () => Math.floor((offsetMs === null ? clock.now() : clock.monotonic() + offsetMs) + shiftMs()),
    observe(storeMs, sentAtMs, receivedAtMs) {
      // The true offset lies between the two, for the store looked at its clock after the sending and before the
      // receipt. An estimate that fits stays, so that slow answers do not move it; a step of the store's clock does.
      const least = storeMs - shiftMs() - receivedAtMs;
      const most = storeMs - shiftMs() - sentAtMs;
      offsetMs = offsetMs === null ? least : Math.min(Math.max(offsetMs, least), most);
    },
    monotonic: () => clock.monotonic(),
    get shiftMs() {
      return shiftMs();
    },
  };
}
