import { randomBytes } from "node:crypto";
import type { Clock } from "../../domain/call/ports.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import { backgroundTimeoutMs, loadScript, type RedisClient } from "./connection/client.js";
import { documentKeys } from "./documents.js";

const noteReplica = loadScript("note-replica");

const noteEveryMs = 2_000;
/** A process that has not reported for this long is not counted: it has died, or it cannot reach the store. */
export const replicaLifeMs = 10_000;

interface ReplicaCountDeps {
  readonly client: RedisClient;
  readonly clock: Clock;
  readonly changes: Pick<RedisChangeFeed, "channel" | "replicaNews" | "onReplicaNews">;
}

/**
 * Counts the processes that share the store by their reports in it. One that starts or stops notifies the others
 * immediately: if the store fails a moment later, each has the correct share of a limit (state RL-16).
 */
export class ReplicaCount {
  readonly #deps: ReplicaCountDeps;
  readonly #name = randomBytes(9).toString("base64url");
  #known = 1;
  /** Monotonic time until which the count may be too low, because processes could not report. */
  #mayLackUntilMs = 0;
  #counting: Promise<void> = Promise.resolve();
  /** A notification arrived during the current count. */
  #isStale = false;
  #isClosed = false;

  constructor(deps: ReplicaCountDeps) {
    this.#deps = deps;
    deps.changes.onReplicaNews(() => void this.#countAgain());
  }

  /** The last known count, at least 1. */
  get known(): number {
    return this.#known;
  }

  /** Reports this process now and every 2 s. Resolves after the first count. */
  async start(): Promise<void> {
    if (this.#isClosed) return;
    await this.#count();
    this.#deps.clock.after(noteEveryMs, () => void this.start());
  }

  /** Removes this process, so that the others need not wait for its expiry. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#note(0).catch(() => {});
  }

  /**
   * Counts again, once for all notifications that arrive during a count: after an outage all processes report at the same
   * time.
   */
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

  /**
   * Counts the processes. While the store does not answer, and afterwards until all processes had time to report, the count
   * does not decrease.
   */
  async #countNow(): Promise<void> {
    const { clock } = this.#deps;
    try {
      const counted = await this.#note(replicaLifeMs);
      const isSure = clock.monotonic() >= this.#mayLackUntilMs;
      this.#known = Math.max(1, counted, isSure ? 0 : this.#known);
    } catch {
      this.#mayLackUntilMs = clock.monotonic() + replicaLifeMs;
    }
  }

  async #note(life: number): Promise<number> {
    const { client, changes } = this.#deps;
    const args = [this.#name, life, changes.channel, changes.replicaNews];
    return Number(await client.run(noteReplica, [documentKeys.replicas], args, backgroundTimeoutMs));
  }
}
