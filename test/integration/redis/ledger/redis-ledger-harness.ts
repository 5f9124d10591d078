import type { LimitScope, RateLimits } from "../../../../src/domain/call/rate-limits.js";
import type { UsageReader } from "../../../../src/domain/metering/usage-store.js";
import type { Delivery } from "../../../../src/domain/webhooks/delivery.js";
import type { DeliveryQueue } from "../../../../src/domain/webhooks/delivery-queue.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import type { RedisClient } from "../../../../src/state/redis/connection/client.js";
import { RedisConnection } from "../../../../src/state/redis/connection/connection.js";
import { createStoreTime, ScriptRunner, type StoreTime } from "../../../../src/state/redis/connection/scripts.js";
import { createRedisDeliveryQueue } from "../../../../src/state/redis/deliveries/deliveries.js";
import { RedisLedger } from "../../../../src/state/redis/ledger/ledger.js";
import { createRedisUsage } from "../../../../src/state/redis/ledger/usage.js";
import { fanOutAll } from "../../../suites/delivery-records.js";
import { scope } from "../../../support/records.js";
import { silentLog } from "../../../support/silent-log.js";

const readyWithinMs = 5_000;
const patienceMs = 20_000;
const dayMs = 86_400_000;

/** One replica's ledger, on a server that other tests may use. */
export interface LedgerReplica {
  readonly ledger: RedisLedger;
  readonly usage: UsageReader;
  readonly deliveries: DeliveryQueue;
  readonly time: StoreTime;
  /** Moves this replica's view of the store's time. */
  advance(ms: number): void;
  close(): void;
}

/** Opens the ledger of one replica. `wrongByMs`: error of the wall clock of its machine. */
export async function openReplica(url: string, wrongByMs = 0): Promise<LedgerReplica> {
  const system = createSystemClock();
  const clock = { ...system, now: () => system.now() + wrongByMs };
  const connection = new RedisConnection({ url, tls: null, clock, log: silentLog });
  await connection.ready(readyWithinMs);
  const client = patient(connection);
  let shiftMs = 0;
  const time = createStoreTime(clock, () => shiftMs);
  const runner = new ScriptRunner(client, time);
  const replica = {
    ledger: new RedisLedger({ runner }),
    usage: createRedisUsage(runner, async () => []),
    deliveries: createRedisDeliveryQueue({ runner, clock }),
    time,
    advance(ms: number) {
      shiftMs += ms;
    },
    close: () => connection.close(),
  };
  await replica.ledger.inspect("a", [accountScope({})]);
  return replica;
}

/** Lengthens the timeouts of the ledger, because a busy machine cannot meet them and these tests only check results. */
function patient(client: RedisClient): RedisClient {
  return {
    run: (script, keys, args) => client.run(script, keys, args, patienceMs),
    command: (name, args) => client.command(name, args, patienceMs),
    together: (send) => client.together(send),
  };
}

/** All deliveries of account `a` with their bodies, in order of creation. */
export async function deliveriesOf(queue: DeliveryQueue): Promise<readonly (Delivery & { readonly body: string })[]> {
  await fanOutAll(queue);
  const any = { state: null, endpointId: null, eventType: null, fromMs: null, toMs: null, replayId: null };
  const { deliveries } = await queue.list({ ...any, account: "a" }, { limit: 10_000, after: null });
  const oldestFirst = deliveries.toReversed();
  return Promise.all(oldestFirst.map(async (each) => ({ ...each, body: (await queue.payload(each.id)) ?? "" })));
}

/** An endpoint in its stored form, with the parts that a settlement reads. */
export function endpointText(status: "enabled" | "disabled", events: string): string {
  return `${status}|${events}|8|1|{}`;
}

/** Moves the store's time to the middle of the next day, so that no period ends within a test. */
export function toNoon(replica: LedgerReplica): void {
  const nowMs = replica.time.now();
  replica.advance(dayMs - (nowMs % dayMs) + dayMs / 2);
}

export function accountScope(limits: Partial<RateLimits>, account = "a"): LimitScope {
  return scope("account", account, limits);
}

export function keyScope(limits: Partial<RateLimits>, id = "key_1"): LimitScope {
  return scope("key", id, limits);
}
