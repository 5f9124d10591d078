import { ServiceError } from "../../../domain/call/service-error.js";
import { loadScript, type RedisClient, type Script } from "../connection/client.js";
import type { StoreTime } from "../connection/store-time.js";

/** What the ledger runs. Requests wait for these, so servers are given them before the first call. */
export const ledgerScripts = {
  admit: loadScript("admit", ["prelude", "windows"]),
  settle: loadScript("settle", ["prelude", "windows", "deliveries"]),
  chargeRefused: loadScript("charge-refused", ["prelude", "windows"]),
  resetWindow: loadScript("reset-window", ["prelude", "windows"]),
  inspect: loadScript("inspect", ["prelude", "windows"]),
  renew: loadScript("renew", ["prelude"]),
  sweep: loadScript("sweep", ["prelude"]),
  forget: loadScript("forget", ["prelude"]),
};

/** What scripts are called with. Every script takes the shift of the time first and returns the time first. */
export interface ScriptAnswer {
  /** The store's time in the script. */
  readonly nowMs: number;
  readonly rest: readonly unknown[];
}

export class ScriptRunner {
  readonly #client: RedisClient;
  readonly #time: StoreTime;

  constructor(client: RedisClient, time: StoreTime) {
    this.#client = client;
    this.#time = time;
  }

  /** Rejects with `storage_unavailable`; the script may have run nevertheless. */
  async run(
    script: Script,
    keys: readonly string[],
    args: readonly (string | number)[],
    timeoutMs: number,
  ): Promise<ScriptAnswer> {
    const sentAtMs = this.#time.monotonic();
    const answer = await this.#client.run(script, keys, [this.#time.shiftMs, ...args], timeoutMs);
    const [nowMs, ...rest] = answer as [number, ...unknown[]];
    this.#time.observe(nowMs, sentAtMs, this.#time.monotonic());
    return { nowMs, rest };
  }
}

const hourMs = 3_600_000;
const attemptsMax = 3;

export function hourOf(atMs: number): number {
  return Math.floor(atMs / hourMs);
}

export function startOfHour(hour: number): number {
  return hour * hourMs;
}

/**
 * Calls a script whose keys have periods in their names. Which period it is, only the server knows, so the script
 * compares hours before it does anything and answers with the time alone when they differ; then it is called again for
 * the hour that the server named. That ends, because an hour is longer than any call.
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
  throw new ServiceError("storage_unavailable", "The clock of the Redis server is not steady.", {
    retryAfterMs: 1000,
  });
}
