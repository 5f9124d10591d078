import type { Clock, Logger } from "../../domain/call/ports.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { createRedisAuditLog } from "./audit.js";
import { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisTlsFiles } from "./connection/connect-options.js";
import { RedisConnection } from "./connection/connection.js";
import { createRedisHealth } from "./connection/health.js";
import { keyPrefix } from "./connection/key-space.js";
import { createStoreTime, ScriptRunner } from "./connection/scripts.js";
import { createRedisDeliveryQueue } from "./deliveries/deliveries.js";
import { deliveryScripts } from "./deliveries/due-shards.js";
import { createRedisEndpointStore } from "./deliveries/endpoints.js";
import { documentKeys } from "./documents.js";
import { createRedisKeyStore } from "./keys.js";
import { ledgerScripts } from "./ledger/batches.js";
import { RedisLedger } from "./ledger/ledger.js";
import { createRedisUsage } from "./ledger/usage.js";
import { createRedisLimitStore, createRedisThresholdStore } from "./limits.js";
import { ReplicaCount } from "./replicas.js";
import { createRedisRequestLogStore } from "./request-logs.js";
import { createRedisResponseStore } from "./responses.js";
import { createRedisSessionStore } from "./sessions.js";
import { createRedisCatalogStore, createRedisSettingsStore } from "./settings.js";
import { createRedisDrainStore, createRedisUpstreamStore } from "./upstreams.js";

export interface RedisStateDeps {
  /** `redis://`, `rediss://`, `redis+sentinel://…/<primary>`, `redis+cluster://a,b,c`, or nodes of a cluster as a list. */
  readonly url: string;
  /** Null: TLS only where the URL says so, with the system's certificates. */
  readonly tls: RedisTlsFiles | null;
  readonly log: Logger;
  readonly clock: Clock;
  /** Accepts a Redis without an append-only file. */
  readonly allowVolatile: boolean;
  /** Time to wait for an answer of Redis; default 5 s. */
  readonly openWithinMs?: number;
  /** Moves the store's time, for tests. */
  readonly timeShiftMs?: () => number;
  /** Factor of all timeouts of calls, for tests on busy machines; default 1. */
  readonly patience?: number;
  /** Open deliveries that an account may have; default 1,000,000. */
  readonly openDeliveriesMax?: number;
  /** Delivered ones of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
}

const defaultOpenWithinMs = 5_000;

/**
 * Opens the state that all replicas share in Redis. Rejects with StateOpenError, which names the cause and the fix, for
 * a server that does not answer, rejects our user, or would lose acknowledged writes.
 */
export async function openRedisState(deps: RedisStateDeps): Promise<State> {
  const { url, tls, log, clock, allowVolatile, timeShiftMs, patience = 1, ...rest } = deps;
  const { openWithinMs = defaultOpenWithinMs, ...bounds } = rest;
  const connection = new RedisConnection({ url, tls, log, clock, patience });
  const storeTime = createStoreTime(clock, timeShiftMs);
  const health = createRedisHealth({ connection, storeTime, clock });
  const changes = new RedisChangeFeed({ connection, clock, log });
  const replicas = new ReplicaCount({ client: connection, clock, changes });
  try {
    await connection.ready(openWithinMs);
    for (const warning of await health.check(allowVolatile)) log.warn({}, warning);
    if (!(await changes.linked(openWithinMs))) {
      throw new StateOpenError(
        "Redis does not deliver messages between replicas",
        `allow our user the channels ${keyPrefix}* (ACL: &${keyPrefix}*)`,
      );
    }
    await connection.keepLoaded([...Object.values(ledgerScripts), ...Object.values(deliveryScripts)]);
    await replicas.start();
  } catch (error) {
    changes.close();
    await connection.close();
    throw error;
  }
  const runner = new ScriptRunner(connection, storeTime);
  const sessions = createRedisSessionStore(connection, changes);
  const audit = createRedisAuditLog(connection);
  const deliveries = createRedisDeliveryQueue({ runner, clock, ...bounds });
  return {
    kind: "redis",
    keys: createRedisKeyStore(connection, changes),
    sessions: sessions.store,
    settings: createRedisSettingsStore(connection, changes),
    audit: audit.log,
    catalog: createRedisCatalogStore(connection),
    ledger: new RedisLedger({
      runner,
      onDeliveries: (shard, nextDue) => deliveries.shards.noteDue(shard, nextDue),
      ...bounds,
    }),
    limits: createRedisLimitStore(connection, changes),
    usage: createRedisUsage(runner, () => connection.command("smembers", [documentKeys.keyAccounts])),
    thresholds: createRedisThresholdStore(connection, changes),
    upstreams: createRedisUpstreamStore(connection, changes),
    drains: createRedisDrainStore(connection, changes),
    requestLogs: createRedisRequestLogStore(connection),
    responses: createRedisResponseStore(connection),
    endpoints: createRedisEndpointStore(connection, changes, deliveries.shards),
    deliveries,
    changes,
    now: storeTime.now,
    replicas: () => replicas.known,
    async purge(max) {
      const nowMs = storeTime.now();
      let purged = await sessions.purge(nowMs, max);
      purged += await audit.purge(nowMs, max - purged);
      return purged + (await deliveries.purge(max - purged));
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
