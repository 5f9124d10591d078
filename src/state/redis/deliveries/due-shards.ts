import type { Clock } from "../../../domain/call/ports.js";
import { loadScript, type RedisClient, type Script } from "../connection/client.js";
import { type KeySpace, shardCount } from "../connection/key-space.js";
import type { StoreTime } from "../connection/store-time.js";
import type { ScriptAnswer, ScriptRunner } from "../ledger/scripts.js";

/** Between two looks at all shards. What another process makes due is found so much later at most. */
const lookEveryMs = 200;
/** How far the estimate of the store's time may step back between two answers: it is no reason to see nothing due. */
const slackMs = 2;

export interface DueShardsDeps {
  readonly client: RedisClient;
  readonly runner: ScriptRunner;
  readonly space: KeySpace;
  readonly storeTime: StoreTime;
  readonly clock: Pick<Clock, "after">;
}

/**
 * Knows of each shard when it has something to do, so that only those are asked that have: from every script that touches
 * its deliveries, and from a look at all of them every now and then for what others do there.
 */
export class DueShards {
  readonly #client: RedisClient;
  readonly #runner: ScriptRunner;
  readonly #space: KeySpace;
  readonly #time: StoreTime;
  readonly #clock: Pick<Clock, "after">;
  readonly #listeners = new Set<() => void>();
  /** Store time; null: nothing waits there. A shard that was never asked may have something. */
  readonly #nextAtMs: (number | null)[] = Array.from({ length: shardCount }, () => 0);
  /** Monotonic. */
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;

  constructor({ client, runner, space, storeTime, clock }: DueShardsDeps) {
    this.#client = client;
    this.#runner = runner;
    this.#space = space;
    this.#time = storeTime;
    this.#clock = clock;
  }

  /** Runs a script that begins its answer with `next_due` after the time; the rest of the answer. */
  async run(script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> {
    const { rest } = await this.#ask(script, shard, args);
    return rest.slice(1);
  }

  /** The same, where it may have made something due here, of which listeners are told. */
  async runMaking(script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> {
    const { rest } = await this.#ask(script, shard, args);
    this.made(shard, rest[0]);
    return rest.slice(1);
  }

  /** A script of the ledger has made deliveries; `nextDue` is its `next_due`. */
  made(shard: number, nextDue: unknown): void {
    this.#note(shard, nextDue);
    if (this.#isDue(shard)) this.#tell();
  }

  /**
   * Shards that have something due, the longest wait first; looks at all shards where that is due. Rejects with
   * `storage_unavailable` when that fails and none is known to have anything.
   */
  async due(): Promise<readonly number[]> {
    let fault: unknown = null;
    if (this.#time.monotonic() - this.#lookedAtMs >= lookEveryMs) {
      await this.look().catch((error) => {
        fault = error;
      });
    }
    const due = this.dueAsKnown();
    if (fault !== null && due.length === 0) throw fault;
    return due;
  }

  /** The same as far as is known, without looking. */
  dueAsKnown(): readonly number[] {
    const due = this.#nextAtMs.flatMap((atMs, shard) => (this.#isDue(shard) ? [{ shard, atMs: atMs ?? 0 }] : []));
    return due.sort((a, b) => a.atMs - b.atMs).map(({ shard }) => shard);
  }

  /** Until some shard has something; 0: one has. Null: nothing waits anywhere. */
  nextInMs(): number | null {
    const known = this.#nextAtMs.filter((atMs) => atMs !== null);
    return known.length === 0 ? null : Math.max(0, Math.min(...known) - this.#time.now());
  }

  onDue(listener: () => void): () => void {
    // Each has a name of its own, so that one that listens twice is told until it has left twice.
    const own = () => listener();
    this.#listeners.add(own);
    this.#cancelTimer ??= this.#lookLater();
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Looks at all shards, in one write. Rejects with `storage_unavailable`; each shard that answers counts. */
  look(): Promise<void> {
    this.#look ??= this.#lookAtAll().finally(() => {
      this.#look = null;
    });
    return this.#look;
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  async #lookAtAll(): Promise<void> {
    const answers: Promise<unknown>[] = [];
    this.#client.together(() => {
      for (let shard = 0; shard < shardCount; shard += 1) answers.push(this.#ask(deliveryScripts.nextDue, shard, []));
    });
    const settled = await Promise.allSettled(answers);
    this.#lookedAtMs = this.#time.monotonic();
    for (const answer of settled) if (answer.status === "rejected") throw answer.reason;
  }

  #lookLater(): () => void {
    const cancel = this.#clock.after(lookEveryMs, () => {
      const goOn = () => {
        // Closed meanwhile, and perhaps begun anew.
        if (this.#cancelTimer === cancel) this.#lookOn();
      };
      this.look().then(goOn, goOn);
    });
    return cancel;
  }

  #lookOn(): void {
    this.#cancelTimer = this.#lookLater();
    if (this.dueAsKnown().length > 0) this.#tell();
  }

  async #ask(script: Script, shard: number, args: readonly (string | number)[]): Promise<ScriptAnswer> {
    const answer = await this.#runner.run(script, [this.#space.shard(shard).format], args, deliveryTimeoutMs);
    this.#note(shard, answer.rest[0]);
    return answer;
  }

  #note(shard: number, nextDue: unknown): void {
    this.#nextAtMs[shard] = nextDue === "" ? null : Number(nextDue);
  }

  #isDue(shard: number): boolean {
    const atMs = this.#nextAtMs[shard] ?? null;
    return atMs !== null && atMs <= this.#time.now() + slackMs;
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

const before = ["prelude", "deliveries"];

/** What endpoints and deliveries run. A server is given them as soon as it is connected to. */
export const deliveryScripts = {
  claim: loadScript("claim", before),
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

/** Nobody's request waits for these, so a slow server is waited for. */
export const deliveryTimeoutMs = 1_000;
