import type { Clock, Logger } from "../../domain/call/ports.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { RedisAuditLog } from "./audit.js";
import { RedisCatalogStore } from "./catalog.js";
import { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisTlsFiles } from "./connection/connect-options.js";
import { RedisConnection } from "./connection/connection.js";
import { RedisHealth } from "./connection/health.js";
import { createKeySpace } from "./connection/key-space.js";
import { createStoreTime } from "./connection/store-time.js";
import { createRedisDeliveryQueue } from "./deliveries/deliveries.js";
import { deliveryScripts } from "./deliveries/due-shards.js";
import { RedisEndpointStore } from "./endpoints.js";
import { RedisKeyStore } from "./keys.js";
import { RedisLedger } from "./ledger/ledger.js";
import { ledgerScripts } from "./ledger/scripts.js";
import { createRedisUsage } from "./ledger/usage.js";
import { RedisLimitStore } from "./limits.js";
import { ReplicaCount } from "./replicas.js";
import { RedisSessionStore } from "./sessions.js";
import { RedisSettingsStore } from "./settings.js";
import { RedisThresholdStore } from "./thresholds.js";

export interface RedisStateDeps {
  /** `redis://`, `rediss://`, `redis+sentinel://…/<primary>`, `redis+cluster://a,b,c`, or nodes of a cluster as a list. */
  readonly url: string;
  /** Null: TLS only where the URL says so, with the system's certificates. */
  readonly tls: RedisTlsFiles | null;
  readonly log: Logger;
  readonly clock: Clock;
  /** Accepts a Redis without an append-only file. */
  readonly allowVolatile: boolean;
  /** How long a Redis that does not answer is waited for; default 5 s. */
  readonly openWithinMs?: number;
  /** For tests, which move the store's time. */
  readonly timeShiftMs?: () => number;
  /** For tests on busy machines: makes all timeouts of calls so many times longer. */
  readonly patience?: number;
  /** Open deliveries that an account may have; default 1,000,000. */
  readonly openDeliveriesMax?: number;
  /** Delivered ones of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
}

const defaultOpenWithinMs = 5_000;

/**
 * Opens the state that all replicas share in Redis. Rejects with StateOpenError, which names the cause and the fix, for
 * a server that does not answer, refuses us, or would lose what it acknowledges.
 */
export async function openRedisState(deps: RedisStateDeps): Promise<State> {
  const { url, tls, log, clock, allowVolatile, timeShiftMs, patience = 1, ...rest } = deps;
  const { openWithinMs = defaultOpenWithinMs, ...bounds } = rest;
  const connection = new RedisConnection({ url, tls, log, clock, patience });
  const storeTime = createStoreTime({ clock, ...(timeShiftMs === undefined ? {} : { shiftMs: timeShiftMs }) });
  const health = new RedisHealth({ connection, storeTime, clock });
  const changes = new RedisChangeFeed({ connection, clock, log });
  const replicas = new ReplicaCount({ client: connection, clock, changes });
  try {
    await connection.ready(openWithinMs);
    for (const warning of await health.check(allowVolatile)) log.warn({}, warning);
    if (!(await changes.linked(openWithinMs))) {
      throw new StateOpenError(
        "Redis does not pass on messages between replicas",
        `allow our user the channels ${connection.prefix}* (ACL: &${connection.prefix}*)`,
      );
    }
    await connection.keepLoaded([...Object.values(ledgerScripts), ...Object.values(deliveryScripts)]);
    await replicas.start();
  } catch (error) {
    changes.close();
    await connection.close();
    throw error;
  }
  const keys = new RedisKeyStore(connection, changes);
  const sessions = new RedisSessionStore(connection, changes);
  const audit = new RedisAuditLog(connection);
  const space = createKeySpace(connection.prefix);
  const deliveries = createRedisDeliveryQueue({ client: connection, space, storeTime, clock, ...bounds });
  const { shards } = deliveries;
  return {
    kind: "redis",
    keys,
    sessions,
    settings: new RedisSettingsStore(connection, changes),
    audit,
    catalog: new RedisCatalogStore(connection),
    ledger: new RedisLedger({
      client: connection,
      storeTime,
      onDeliveries: (shard, nextDue) => shards.made(shard, nextDue),
      ...bounds,
    }),
    limits: new RedisLimitStore(connection, changes),
    usage: createRedisUsage({ client: connection, storeTime, accountsWithKeys: () => keys.accounts() }),
    thresholds: new RedisThresholdStore(connection, changes),
    endpoints: new RedisEndpointStore({ client: connection, feed: changes, space, shards }),
    deliveries,
    changes,
    now: () => storeTime.now(),
    replicas: () => replicas.known,
    async purge(max) {
      const nowMs = storeTime.now();
      let gone = await sessions.purge(nowMs, max);
      gone += await audit.purge(nowMs, max - gone);
      return gone + (await deliveries.purge(max - gone));
    },
    backup: null,
    health: () => health.now(),
    async close() {
      deliveries.close();
      await replicas.close();
      changes.close();
      await connection.close();
    },
  };
}
