import type { Clock } from "../../../domain/call/ports.js";
import { eventTypes } from "../../../domain/events/events.js";
import {
  type DeliveryQueue,
  deliveredKeptMax as defaultKeptMax,
  openDeliveriesMax as defaultOpenMax,
  deliveredKeptMs,
  failedKeptMs,
  type RetryOutcome,
} from "../../../domain/webhooks/delivery-queue.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import type { ScriptRunner } from "../connection/scripts.js";
import { TurnBatch } from "../ledger/batches.js";
import { createClaims } from "./claiming.js";
import { DueShards, deliveryScripts, deliveryTimeoutMs } from "./due-shards.js";
import { createDeliveryLog, creationBounds } from "./listing.js";

export interface RedisDeliveryQueueDeps {
  readonly runner: ScriptRunner;
  readonly clock: Pick<Clock, "after">;
  /** Maximum number of delivered deliveries of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
  /** Maximum number of open deliveries of an account; default 1,000,000. */
  readonly openDeliveriesMax?: number;
}

/** Maximum number of deliveries that one call of a purge changes. A call then takes a few milliseconds of the server's time. */
const purgeMax = 200;

/** The queue in Redis, with its shards, on which other parts of the driver run scripts. */
export interface RedisDeliveryQueue extends DeliveryQueue {
  readonly shards: DueShards;
  /**
   * Removes at most `max` expired payloads and records, and returns their number. Stops at `endMs` (of `performance.now`);
   * the next call continues with the following shard.
   */
  purge(max: number, endMs: number): Promise<number>;
  close(): void;
}

export function createRedisDeliveryQueue({
  runner,
  clock,
  deliveredKeptMax = defaultKeptMax,
  openDeliveriesMax = defaultOpenMax,
}: RedisDeliveryQueueDeps): RedisDeliveryQueue {
  const due = new DueShards(runner, clock);
  /** Where the next purge begins. */
  let purgedShard = 0;
  return {
    shards: due,
    ...createClaims(due, new TurnBatch((send) => runner.client.together(send)), openDeliveriesMax),
    ...createDeliveryLog(runner),
    async retryNow({ account, deliveryId, by, restart, again }) {
      const args = [account, deliveryId, by, Number(restart), Number(again)];
      const [outcome] = await due.runAndNotify(deliveryScripts.retryNow, keySpace.shardOf(account).index, args);
      return outcome as RetryOutcome;
    },
    async replay(request) {
      const { account, endpointId, which, replayId, by, restart, after, max, firstInMs, spacingMs } = request;
      const { least, most } = creationBounds(request);
      const answer = await due.runAndNotify(deliveryScripts.replay, keySpace.shardOf(account).index, [
        ...[account, endpointId, after === null ? least : `(${after}`, most, which],
        ...[replayId, by, Number(restart), max, firstInMs, spacingMs, ...eventTypes],
      ]);
      const [queued, waiting, delivered, failed, last] = answer as [number, number, number, number, string];
      return { queued, waiting, delivered, failed, next: last === "" ? null : last };
    },
    onDue: (listener) => due.onDue(listener),
    async purge(max, endMs) {
      let purged = 0;
      for (let done = 0; done < shardCount && purged < max; ) {
        const shard = purgedShard;
        const args = [Math.min(max - purged, purgeMax), deliveredKeptMs, failedKeptMs, deliveredKeptMax];
        const { rest } = await runner.run(
          deliveryScripts.purge,
          [keySpace.shard(shard).format],
          args,
          deliveryTimeoutMs,
        );
        const step = Number(rest[0]);
        purged += step;
        const isOver = performance.now() >= endMs;
        if (step < purgeMax) done += 1;
        if (step < purgeMax || isOver) purgedShard = (purgedShard + 1) % shardCount;
        if (step >= purgeMax && isOver) break;
      }
      return purged;
    },
    close: () => due.close(),
  };
}
