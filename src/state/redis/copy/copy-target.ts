import { type Clock, type Logger, pause } from "../../../domain/call/ports.js";
import { ServiceError } from "../../../domain/call/service-error.js";
import { ClockJumps } from "../../../domain/service/clock-jumps.js";
import { StateOpenError } from "../../../domain/service/state.js";
import {
  type CopiedKind,
  copiedKinds,
  type KindDifference,
  type StateSource,
  type StateTarget,
} from "../../../domain/service/state-copy.js";
import { backgroundTimeoutMs, isReply, loadScript, meaningOf } from "../connection/client.js";
import { type RedisTlsFiles, redactedRedisUrl } from "../connection/connect-options.js";
import { RedisConnection } from "../connection/connection.js";
import { createRedisHealth } from "../connection/health.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import { copyCommands } from "../connection/permissions.js";
import { createStoreTime, ScriptRunner } from "../connection/scripts.js";
import { readCopyMark, writeCopyMark } from "../copy-mark.js";
import { deliveryScripts } from "../deliveries/due-shards.js";
import { documentKeys } from "../documents.js";
import { replicaLifeMs } from "../replicas.js";
import { CopiedKeyScan } from "./copied-key-scan.js";
import { entriesOf } from "./entries.js";
import type { Entry } from "./entry.js";
import { compareEntries, EntryBatches, writeEntries } from "./entry-batches.js";

export interface CopyTargetDeps {
  readonly url: string;
  readonly tls: RedisTlsFiles | null;
  readonly log: Logger;
  readonly clock: Clock;
  /** Accepts a Redis without an append-only file. */
  readonly allowVolatile: boolean;
  readonly openWithinMs: number;
}

const beginShard = loadScript("begin-shard", ["prelude"]);
/** Maximum number of attempts at a read or write while Redis does not answer, and the pause before each further attempt. */
const triesMax = 5;
const tryAgainMs = 1_000;

/**
 * Opens a Redis that a state is copied into. Rejects with StateOpenError for one that a service could not use either, or
 * whose data has the format of another version.
 */
export async function openCopyTarget(deps: CopyTargetDeps): Promise<StateTarget> {
  const { url, tls, log, clock, allowVolatile, openWithinMs } = deps;
  const connection = new RedisConnection({ url, tls, log, clock, isStarting: () => true });
  const storeTime = createStoreTime(clock);
  const jumps = new ClockJumps({ whose: "the clock of Redis", monotonic: () => clock.monotonic(), log });
  const health = createRedisHealth({ connection, storeTime, jumps, clock });
  const runner = new ScriptRunner(connection, storeTime);
  try {
    await connection.ready(openWithinMs);
    const warnings = await health.check(allowVolatile, connection.user, backgroundTimeoutMs, copyCommands);
    const target = new CopyTarget(deps, connection, runner, warnings);
    await target.checkFormat();
    return target;
  } catch (error) {
    await connection.close();
    if (error instanceof StateOpenError) throw error;
    const fix = "check its log and the network, and run the command again";
    throw new StateOpenError(`Redis cannot be checked: ${meaningOf(error)}`, fix, { cause: error });
  }
}

class CopyTarget implements StateTarget {
  readonly warnings: readonly string[];
  readonly #deps: CopyTargetDeps;
  readonly #connection: RedisConnection;
  readonly #runner: ScriptRunner;
  readonly #scan: CopiedKeyScan;

  constructor(deps: CopyTargetDeps, connection: RedisConnection, runner: ScriptRunner, warnings: readonly string[]) {
    this.warnings = warnings;
    this.#deps = deps;
    this.#connection = connection;
    this.#runner = runner;
    this.#scan = new CopiedKeyScan(connection);
  }

  /** Rejects with StateOpenError if a shard has the format of another version. */
  async checkFormat(): Promise<void> {
    for (let index = 0; index < shardCount; index += 1) {
      await this.#onShard(deliveryScripts.nextDue, index).catch((error: unknown) => {
        if (!(error instanceof ServiceError) || !isReply(error.cause, "UISFORMAT")) throw error;
        throw new StateOpenError(
          "the data in this Redis has the format of another version",
          "use the version that wrote it, or copy into an empty Redis",
          { cause: error },
        );
      });
    }
  }

  async copy(source: StateSource): Promise<ReadonlyMap<CopiedKind, number>> {
    return await this.#explained(async () => {
      await this.#requireOwnCopy(source);
      // Until the copy is complete no service starts with it.
      await writeCopyMark(this.#connection, { source: source.id, state: "copying" });
      await this.#scan.removeAll((call) => this.#patiently(call));
      for (let index = 0; index < shardCount; index += 1) await this.#onShard(beginShard, index);
      const counts = new Map<CopiedKind, number>();
      for (const kind of copiedKinds) counts.set(kind, await this.#copyKind(kind, source));
      await writeCopyMark(this.#connection, { source: source.id, state: "complete" });
      return counts;
    });
  }

  async compare(source: StateSource): Promise<ReadonlyMap<CopiedKind, KindDifference & { readonly records: number }>> {
    return await this.#explained(async () => {
      const found = new Map<CopiedKind, { records: number; differing: number; surplus: number }>();
      /** Number of entries that are in both source and target, by the kind of their keys. */
      const common = new Map<CopiedKind, number>();
      for (const kind of copiedKinds) {
        let differing = 0;
        const each = async (batch: readonly Entry[]): Promise<void> => {
          const { missing, other } = await this.#patiently(() => compareEntries(this.#connection, batch));
          differing += missing + other;
          const group = kind === "fired_thresholds" ? "period_sums" : kind;
          common.set(group, (common.get(group) ?? 0) + batch.length - missing);
        };
        const records = await this.#eachBatch(kind, source, each);
        found.set(kind, { records, differing, surplus: 0 });
      }
      const surplusOf = async (kinds: readonly CopiedKind[]) => {
        const entries = await this.#scan.countEntries((call) => this.#patiently(call));
        for (const [kind, counts] of found) {
          if (kinds.includes(kind)) counts.surplus = Math.max(0, (entries.get(kind) ?? 0) - (common.get(kind) ?? 0));
        }
      };
      await surplusOf(copiedKinds);
      // Count a second time: the first count is too high if the server's hash table of keys was resized in the meantime.
      const more = copiedKinds.filter((kind) => (found.get(kind)?.surplus ?? 0) > 0);
      if (more.length > 0) await surplusOf(more);
      return found;
    });
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  /** Rejects with StateOpenError unless the target is empty, or has a copy of the same store that no service has used. */
  async #requireOwnCopy(source: StateSource): Promise<void> {
    const where = redactedRedisUrl(this.#deps.url);
    const empty = "copy into an empty Redis, or into another database of it";
    const since = this.#runner.time.now() - replicaLifeMs;
    const replicas = [documentKeys.replicas, since, "+inf"];
    const running = await this.#connection.command<number>("zcount", replicas, backgroundTimeoutMs);
    if (running > 0) throw new StateOpenError(`a running service uses ${where}`, "stop it, or copy into another Redis");
    const mark = await readCopyMark(this.#connection);
    if (mark.state === "in_use")
      throw new StateOpenError(`a service has used the copy in ${where} and changed it`, empty);
    if (mark.source !== null && mark.source !== source.id) {
      throw new StateOpenError(`${where} has a copy of another installation`, empty);
    }
    const foreign = await this.#scan.find(
      (found) => found === "foreign" || (mark.source === null && found !== "neutral"),
    );
    if (foreign !== null) throw new StateOpenError(`${where} has data that no copy has written (${foreign})`, empty);
  }

  async #copyKind(kind: CopiedKind, source: StateSource): Promise<number> {
    return await this.#eachBatch(kind, source, (batch) => this.#patiently(() => writeEntries(this.#connection, batch)));
  }

  /** Calls a function with each batch of entries of one kind. Returns the number of records. */
  async #eachBatch<K extends CopiedKind>(
    kind: K,
    source: StateSource,
    each: (batch: readonly Entry[]) => Promise<void>,
  ): Promise<number> {
    let count = 0;
    const counted = function* () {
      for (const record of source.records(kind)) {
        count += 1;
        yield record;
      }
    };
    for (const batch of new EntryBatches(entriesOf(kind, counted(), this.#deps.clock.now()))) await each(batch);
    return count;
  }

  /** Repeats a call while Redis does not answer. Every call here can be repeated. */
  async #patiently<T>(call: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await call();
      } catch (error) {
        const isFinal = !(error instanceof ServiceError) || isReply(error.cause, "OOM") || tries === triesMax;
        if (isFinal) throw error;
        await pause(this.#deps.clock, tryAgainMs);
      }
    }
  }

  async #onShard(script: typeof beginShard, index: number): Promise<void> {
    await this.#runner.run(script, [keySpace.shard(index).format], [], backgroundTimeoutMs);
  }

  /** Runs a step of the copy. Rejects with StateOpenError, which explains the fault of the store. */
  async #explained<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (cause) {
      if (!(cause instanceof ServiceError)) throw cause;
      const where = redactedRedisUrl(this.#deps.url);
      if (isReply(cause.cause, "OOM")) {
        const fix = "raise its maxmemory, and run the command again, which continues the copy";
        throw new StateOpenError(`the memory of Redis at ${where} is full`, fix, { cause });
      }
      const fix = "check it, and run the command again, which continues the copy";
      throw new StateOpenError(`Redis at ${where} failed: ${meaningOf(cause.cause)}`, fix, { cause });
    }
  }
}
