import { randomBytes } from "node:crypto";
import type { Clock } from "../../domain/call/ports.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { loadScript, type RedisClient } from "./connection/client.js";
import { documentKeys } from "./documents.js";

const noteReplica = loadScript("note-replica");

const noteEveryMs = 2_000;
/** A process that was not heard of for so long does not count: it has died, or the store was away. */
const lifeMs = 10_000;

/**
 * Counts the processes that share the store, by what each of them notes there. One that comes or goes is told to the
 * others at once: a store that goes away a moment later leaves each its share of a limit (state RL-16).
 */
export class ReplicaCount {
  readonly #client: RedisClient;
  readonly #changes: Pick<RedisChangeFeed, "channel" | "replicaNews">;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #name = randomBytes(9).toString("base64url");
  #known = 1;
  /** Monotonic: until then others may be missing that have not been able to note themselves. */
  #mayLackUntilMs = 0;
  #counting: Promise<void> = Promise.resolve();
  /** News came during the count that is under way. */
  #isStale = false;
  #isClosed = false;

  constructor(deps: {
    readonly client: RedisClient;
    readonly clock: Clock;
    readonly changes: Pick<RedisChangeFeed, "channel" | "replicaNews" | "onReplicaNews">;
  }) {
    this.#client = deps.client;
    this.#changes = deps.changes;
    this.#clock = deps.clock;
    this.#key = documentKeys(deps.client.prefix).replicas;
    deps.changes.onReplicaNews(() => {
      void this.#countAgain();
    });
  }

  /** As last known, at least this one. */
  get known(): number {
    return this.#known;
  }

  /** Notes this process now and from time to time. Resolves after the first count. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    await this.#count();
    this.#clock.after(noteEveryMs, () => void this.start());
  }

  /** Takes this process out, so that the others need not wait for the end of its time. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#note(0).catch(() => {});
  }

  /** Once more for all news that come while a count is under way: after an outage all processes come at once. */
  async #countAgain(): Promise<void> {
    if (this.#isClosed || this.#isStale) return;
    this.#isStale = true;
    await this.#counting;
    this.#isStale = false;
    if (!this.#isClosed) await this.#count();
  }

  #count(): Promise<void> {
    this.#counting = this.#countNow();
    return this.#counting;
  }

  /** While the store does not answer, and until all can have come back to it, the count does not fall. */
  async #countNow(): Promise<void> {
    try {
      const counted = await this.#note(lifeMs);
      const isSure = this.#clock.monotonic() >= this.#mayLackUntilMs;
      this.#known = Math.max(1, counted, isSure ? 0 : this.#known);
    } catch {
      this.#mayLackUntilMs = this.#clock.monotonic() + lifeMs;
    }
  }

  async #note(life: number): Promise<number> {
    const { channel, replicaNews } = this.#changes;
    return Number(await this.#client.run(noteReplica, [this.#key], [this.#name, life, channel, replicaNews]));
  }
}
