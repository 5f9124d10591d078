import type { Clock } from "../../../domain/call/ports.js";
import { loadScript, type Script } from "../connection/client.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import type { ScriptRunner } from "../connection/scripts.js";

/** Interval of polling. It is the maximum delay after which a delivery that another process created is noticed. */
const pollEveryMs = 200;
/** Tolerance for a step back of the estimated store time between two answers. */
const slackMs = 2;

/**
 * The time at which the next delivery of each shard is due, so that claims are sent only to shards with due deliveries. The
 * times come from the answers of every script that touches deliveries, and from polling all shards for changes of other
 * processes.
 */
export class DueShards {
  readonly #runner: ScriptRunner;
  readonly #clock: Pick<Clock, "after">;
  readonly #listeners = new Set<() => void>();
  /** Store time; null: nothing waits. 0 for a shard that was never polled. */
  readonly #nextAtMs: (number | null)[] = Array.from({ length: shardCount }, () => 0);
  /** Monotonic time of the last poll. */
  #polledAtMs = Number.NEGATIVE_INFINITY;
  #polling: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;

  constructor(runner: ScriptRunner, clock: Pick<Clock, "after">) {
    this.#runner = runner;
    this.#clock = clock;
  }

  /** Runs a script that answers with the time, `next_due` and the rest. Returns the rest. */
  async run(script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> {
    const { rest } = await this.#runner.run(script, [keySpace.shard(shard).format], args, deliveryTimeoutMs);
    this.#note(shard, rest[0]);
    return rest.slice(1);
  }

  /** Like `run`, for a script after which more deliveries may be due. Notifies the listeners if there are any. */
  async runAndNotify(script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> {
    const rest = await this.run(script, shard, args);
    if (this.#isDue(shard)) this.#notify();
    return rest;
  }

  /** Notes the `next_due` of a script that created deliveries, and notifies listeners. */
  noteDue(shard: number, nextDue: unknown): void {
    this.#note(shard, nextDue);
    if (this.#isDue(shard)) this.#notify();
  }

  /**
   * Shards with due deliveries, the longest wait first. Polls all shards before it returns if the last poll is 200 ms old.
   * Rejects with `storage_unavailable` when polling fails and no shard is known to be due.
   */
  async due(): Promise<readonly number[]> {
    let fault: unknown = null;
    if (this.#runner.time.monotonic() - this.#polledAtMs >= pollEveryMs) {
      await this.poll().catch((error) => {
        fault = error;
      });
    }
    const due = this.knownDue();
    if (fault !== null && due.length === 0) throw fault;
    return due;
  }

  /** The shards that are known to be due, longest wait first, without polling. */
  knownDue(): readonly number[] {
    const due = this.#nextAtMs.flatMap((atMs, shard) => (this.#isDue(shard) ? [{ shard, atMs: atMs ?? 0 }] : []));
    return due.sort((a, b) => a.atMs - b.atMs).map(({ shard }) => shard);
  }

  /** Time until the first shard has a due delivery; 0: a shard has one now. Null: no delivery waits. */
  nextInMs(): number | null {
    const known = this.#nextAtMs.filter((atMs) => atMs !== null);
    return known.length === 0 ? null : Math.max(0, Math.min(...known) - this.#runner.time.now());
  }

  onDue(listener: () => void): () => void {
    // A new function each time, so that the same listener can subscribe twice and unsubscribe separately.
    const own = () => listener();
    this.#listeners.add(own);
    this.#cancelTimer ??= this.#pollLater();
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Polls all shards in one write. Rejects with `storage_unavailable`; the answers of other shards count. */
  poll(): Promise<void> {
    this.#polling ??= this.#pollAll().finally(() => {
      this.#polling = null;
    });
    return this.#polling;
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  async #pollAll(): Promise<void> {
    const answers: Promise<unknown>[] = [];
    this.#runner.client.together(() => {
      for (let shard = 0; shard < shardCount; shard += 1) answers.push(this.run(deliveryScripts.nextDue, shard, []));
    });
    const settled = await Promise.allSettled(answers);
    this.#polledAtMs = this.#runner.time.monotonic();
    for (const answer of settled) if (answer.status === "rejected") throw answer.reason;
  }

  #pollLater(): () => void {
    const cancel = this.#clock.after(pollEveryMs, () => {
      const again = () => {
        // Stops if this object was closed in the meantime, even if it was started again.
        if (this.#cancelTimer !== cancel) return;
        this.#cancelTimer = this.#pollLater();
        if (this.knownDue().length > 0) this.#notify();
      };
      this.poll().then(again, again);
    });
    return cancel;
  }

  #note(shard: number, nextDue: unknown): void {
    this.#nextAtMs[shard] = nextDue === "" ? null : Number(nextDue);
  }

  #isDue(shard: number): boolean {
    const atMs = this.#nextAtMs[shard] ?? null;
    return atMs !== null && atMs <= this.#runner.time.now() + slackMs;
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

const before = ["prelude", "deliveries"];

/** The scripts of endpoints and deliveries. Every server loads them when it is connected. */
export const deliveryScripts = {
  claim: loadScript("claim", [...before, "events"]),
  fanOut: loadScript("fan-out", [...before, "events"]),
  waitingEvents: loadScript("waiting-events", before),
  finish: loadScript("finish", before),
  handBack: loadScript("hand-back", before),
  retryNow: loadScript("retry-now", before),
  replay: loadScript("replay", before),
  nextDue: loadScript("next-due", before),
  find: loadScript("find-deliveries", before),
  scan: loadScript("scan-deliveries", before),
  backlog: loadScript("backlog", before),
  purge: loadScript("purge-deliveries", before),
  writeEndpoint: loadScript("write-endpoint", before),
};

/** Timeout of calls about deliveries. It is long, because no inference request waits for these calls. */
export const deliveryTimeoutMs = 1_000;
