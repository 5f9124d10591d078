import type { Clock } from "../../../domain/call/ports.js";
import {
  type DeliveryQueue,
  deliveredKeptMax,
  deliveredKeptMs,
  failedKeptMs,
} from "../../../domain/webhooks/delivery-queue.js";
import { type KeySpace, shardCount } from "../key-space.js";
import { ScriptRunner } from "../ledger/script-runner.js";
import { TurnBatch } from "../ledger/turn.js";
import type { RedisClient } from "../redis-client.js";
import type { StoreTime } from "../store-time.js";
import { DeliveryClaims } from "./delivery-claims.js";
import { DeliveryLog } from "./delivery-log.js";
import { DeliveryRetries } from "./delivery-retries.js";
import { deliveryScripts, deliveryTimeoutMs } from "./delivery-scripts.js";
import { DueShards } from "./due-shards.js";

export interface RedisDeliveryQueueDeps {
  readonly client: RedisClient;
  readonly space: KeySpace;
  readonly storeTime: StoreTime;
  readonly clock: Pick<Clock, "after">;
  /** Delivered ones of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
}

/** Deliveries that one call of a purge touches: a few milliseconds of the server. */
const purgeMax = 200;

/** The queue in Redis, with what its neighbours in this driver need of it. */
export interface RedisDeliveryQueue extends DeliveryQueue {
  /** What other parts of the driver do to the deliveries of a shard goes through here. */
  readonly shards: DueShards;
  /** Takes at most `max` payloads and records whose time is over; how many. */
  purge(max: number): Promise<number>;
  close(): void;
}

export function createRedisDeliveryQueue(deps: RedisDeliveryQueueDeps): RedisDeliveryQueue {
  const { client, space, storeTime, clock } = deps;
  const runner = new ScriptRunner(client, storeTime);
  const due = new DueShards({ client, runner, space, storeTime, clock });
  const claims = new DeliveryClaims({ space, due, turn: new TurnBatch((send) => client.together(send)) });
  const retries = new DeliveryRetries({ space, due });
  const log = new DeliveryLog({ client, runner, space });
  const purgeArgs = [deliveredKeptMs, failedKeptMs, deps.deliveredKeptMax ?? deliveredKeptMax];

  const purgeShard = async (shard: number, max: number): Promise<number> => {
    const args = [Math.min(max, purgeMax), ...purgeArgs];
    const { rest } = await runner.run(deliveryScripts.purge, [space.shard(shard).format], args, deliveryTimeoutMs);
    return Number(rest[0]);
  };

  return {
    shards: due,
    claim: (options) => claims.claim(options),
    finish: (request) => claims.finish(request),
    handBack: (given) => claims.handBack(given),
    retryNow: (request) => retries.retryNow(request),
    replay: (request) => retries.replay(request),
    find: (id) => log.find(id),
    payload: (id) => log.payload(id),
    list: (filter, page) => log.list(filter, page),
    backlog: () => log.backlog(),
    due: () => log.due(),
    onDue: (listener) => due.onDue(listener),
    async purge(max) {
      let gone = 0;
      for (let shard = 0; shard < shardCount && gone < max; ) {
        const step = await purgeShard(shard, max - gone);
        gone += step;
        if (step < purgeMax) shard += 1;
      }
      return gone;
    },
    close: () => due.close(),
  };
}
