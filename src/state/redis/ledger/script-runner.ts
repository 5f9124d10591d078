import type { RedisClient, Script } from "../redis-client.js";
import type { StoreTime } from "../store-time.js";

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
