import type { Clock } from "../../../domain/call/ports.js";
import { ServiceError } from "../../../domain/call/service-error.js";
import { defaultLeadMaxMs } from "../../../lib/clock.js";
import type { RedisClient, Script } from "./client.js";

/**
 * Estimate of the store's time, off by a round trip at most. It names periods and dates records; scripts decide by the
 * server's own time.
 */
export interface StoreTime {
  /** Wall-clock milliseconds of the store; the process's own until the store has answered once. */
  now(): number;
  /** Records the store's time at some moment between two readings of the monotonic clock. */
  observe(storeMs: number, sentAtMs: number, receivedAtMs: number): void;
  /** Monotonic time in milliseconds, for `observe`. */
  monotonic(): number;
  /** How far the newest observed time is ahead of the store's, which was set back; else 0. */
  aheadMs(): number;
  /** Added to the server's time by scripts and by `now`; 0 outside of tests. */
  readonly shiftMs: number;
}

/**
 * `shiftMs` moves the store's time in tests. `onJump` is called when the store's clock was set by minutes; negative: set
 * back.
 */
export function createStoreTime(
  clock: Pick<Clock, "now" | "monotonic">,
  shiftMs = () => 0,
  onJump: (byMs: number) => void = () => {},
): StoreTime {
  /** Store's unshifted time minus monotonic time; null before the first answer. */
  let offsetMs: number | null = null;
  let newestMs = 0;
  const now = (): number => Math.floor((offsetMs === null ? clock.now() : clock.monotonic() + offsetMs) + shiftMs());
  return {
    now,
    aheadMs: () => Math.max(0, newestMs - now()),
    observe(storeMs, sentAtMs, receivedAtMs) {
      // The store read its clock after the sending and before the receipt, so the true offset is between the two. An
      // estimate in this range is kept, so that slow answers do not change it; it changes when the store's clock is set.
      const least = storeMs - shiftMs() - receivedAtMs;
      const most = storeMs - shiftMs() - sentAtMs;
      const before = offsetMs ?? least;
      offsetMs = Math.min(Math.max(before, least), most);
      if (storeMs > newestMs) newestMs = storeMs;
      if (Math.abs(offsetMs - before) > defaultLeadMaxMs) onJump(offsetMs - before);
    },
    monotonic: () => clock.monotonic(),
    get shiftMs() {
      return shiftMs();
    },
  };
}

/** Answer of a script. Every script takes the shift of the time as its first argument and returns the time first. */
export interface ScriptAnswer {
  /** The store's time in the script. */
  readonly nowMs: number;
  readonly rest: readonly unknown[];
}

/** Runs scripts that use the store's time, and updates the estimate of that time from their answers. */
export class ScriptRunner {
  readonly client: RedisClient;
  readonly time: StoreTime;

  constructor(client: RedisClient, time: StoreTime) {
    this.client = client;
    this.time = time;
  }

  /** Rejects with `storage_unavailable`; the script may have run nevertheless. */
  async run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    timeoutMs: number,
  ): Promise<ScriptAnswer> {
    const sentAtMs = this.time.monotonic();
    const answer = await this.client.run(script, keys, [this.time.shiftMs, ...args], timeoutMs);
    const [nowMs, ...rest] = answer as [number, ...unknown[]];
    this.time.observe(nowMs, sentAtMs, this.time.monotonic());
    return { nowMs, rest };
  }
}

const hourMs = 3_600_000;
const attemptsMax = 3;

export function hourOf(atMs: number): number {
  return Math.floor(atMs / hourMs);
}

/**
 * Calls a script whose keys have a period in their names. Only the server knows its exact time, so the script first
 * compares the hour. If the hour differs, it changes nothing and returns only the time; then it is called again for that
 * hour. An hour is longer than any call, so few attempts suffice.
 */
export async function atStoreHour(
  estimatedNowMs: number,
  call: (hour: number, nowMs: number) => Promise<ScriptAnswer>,
): Promise<ScriptAnswer> {
  let nowMs = estimatedNowMs;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const answer = await call(hourOf(nowMs), nowMs);
    if (answer.rest.length > 0) return answer;
    nowMs = answer.nowMs;
  }
  throw new ServiceError("storage_unavailable", "The clock of the Redis server jumps between calls.", {
    retryAfterMs: 1000,
  });
}
