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
