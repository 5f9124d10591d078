import { type Clock, type Logger, pause } from "../../domain/call/ports.js";
import { ClockJumps } from "../../domain/service/clock-jumps.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { createRedisAuditLog } from "./audit.js";
import { RedisChangeFeed } from "./connection/change-feed.js";
import { backgroundTimeoutMs, meaningOf } from "./connection/client.js";
import type { RedisTlsFiles } from "./connection/connect-options.js";
import { RedisConnection } from "./connection/connection.js";
import { createRedisHealth } from "./connection/health.js";
import { keyPrefix } from "./connection/key-space.js";
import { createStoreTime, ScriptRunner } from "./connection/scripts.js";
import { takeCopyInUse } from "./copy-mark.js";
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
  /** How long the start retries while Redis does not answer; default 30 s. */
  readonly openWithinMs?: number;
  /** Whether the service is starting, so that no request waits for a call. */
  readonly isStarting?: () => boolean;
  /**
   * Whether this process is the service, which writes to the store continuously, and not a command of the CLI. Default:
   * false.
   */
  readonly serves?: boolean;
  /** Moves the store's time, for tests. */
  readonly timeShiftMs?: () => number;
  /** Factor of all timeouts of calls, for tests on busy machines; default 1. */
  readonly patience?: number;
  /** Maximum number of open deliveries of an account; default 1,000,000. */
  readonly openDeliveriesMax?: number;
  /** Maximum number of events of an account whose deliveries are not created yet; default 100,000. */
  readonly waitingEventsMax?: number;
  /** Maximum number of delivered deliveries of a shard that keep their payload; default 100,000. */
  readonly deliveredKeptMax?: number;
}

const defaultOpenWithinMs = 30_000;
const openAgainMs = 250;
/** If the start waits longer than this for Redis, it logs that it waits. */
const noticeAfterMs = 2_000;

/**
 * Opens the state that all replicas share in Redis. Rejects with StateOpenError, which names the cause and the fix, for
 * a server that does not answer, rejects our user, denies a command, or would lose acknowledged writes. A server that is
 * slow or absent is tried again until `openWithinMs` has passed (E-28).
 */
export async function openRedisState(deps: RedisStateDeps): Promise<State> {
  const { url, tls, log, clock, allowVolatile, timeShiftMs, patience = 1, ...rest } = deps;
  const { openWithinMs = defaultOpenWithinMs, isStarting = () => false, serves = false, ...bounds } = rest;
  let isOpening = true;
  const connection = new RedisConnection({
    ...{ url, tls, log, clock, patience },
    isStarting: () => isOpening || isStarting(),
  });
  const jumps = new ClockJumps({ whose: "the clock of Redis", monotonic: () => clock.monotonic(), log });
  const storeTime = createStoreTime(clock, timeShiftMs, (byMs) => jumps.note(byMs));
  const health = createRedisHealth({ connection, storeTime, jumps, clock });
  const changes = new RedisChangeFeed({ connection, clock, log });
  const replicas = new ReplicaCount({ client: connection, clock, changes });
  const untilMs = clock.monotonic() + openWithinMs;
  const leftMs = () => Math.max(1, untilMs - clock.monotonic());
  const cancelNotice = clock.after(noticeAfterMs, () => {
    log.warn({ within_ms: openWithinMs }, "Redis does not answer yet; retrying until state.start_timeout has passed");
  });
  try {
    await connection.ready(openWithinMs).finally(cancelNotice);
    for (const warning of await checkedServer()) log.warn({}, warning);
    if (!(await changes.linked(Math.max(backgroundTimeoutMs, leftMs())))) {
      throw new StateOpenError(
        "Redis does not deliver messages between replicas",
        `allow our user SUBSCRIBE and the channels ${keyPrefix}*: ACL SETUSER ${connection.user} +subscribe &${keyPrefix}*`,
      );
    }
    await connection.keepLoaded([...Object.values(ledgerScripts), ...Object.values(deliveryScripts)]);
    await replicas.start();
    if (serves) await takeCopyInUse(connection);
  } catch (error) {
    await replicas.close();
    changes.close();
    await connection.close();
    throw error;
  }
  isOpening = false;
  const runner = new ScriptRunner(connection, storeTime);
  const sessions = createRedisSessionStore(connection, changes);
  const audit = createRedisAuditLog(connection);
  const deliveries = createRedisDeliveryQueue({ runner, clock, ...bounds });
  const ledger = new RedisLedger({
    runner,
    canBeReplaced: connection.canBeReplaced,
    onDeliveries: (shard, nextDue) => deliveries.shards.noteDue(shard, nextDue),
    ...bounds,
  });
  connection.onReplaced(() => {
    log.warn({}, "the cluster has another primary: usage of the last 30 s is sent again, in case it lacks some");
    void ledger.settleAgain();
  });
  return {
    kind: "redis",
    keys: createRedisKeyStore(connection, changes),
    sessions: sessions.store,
    settings: createRedisSettingsStore(connection, changes),
    audit: audit.log,
    catalog: createRedisCatalogStore(connection),
    ledger,
    limits: createRedisLimitStore(connection, changes),
    usage: createRedisUsage(runner, () =>
      connection.command("smembers", [documentKeys.keyAccounts], backgroundTimeoutMs),
    ),
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
    async purge(max, budgetMs = Number.POSITIVE_INFINITY) {
      const endMs = performance.now() + budgetMs;
      const nowMs = storeTime.now();
      let purged = await sessions.purge(nowMs, max);
      purged += await audit.purge(nowMs, max - purged);
      return purged + (await deliveries.purge(max - purged, endMs));
    },
    backup: null,
    health: () => health.now(),
    fileFault: () => null,
    async close() {
      deliveries.close();
      ledger.close();
      await replicas.close();
      changes.close();
      await connection.close();
    },
  };

  /** Checks the server, again and again while it does not answer, and returns the warnings of the check. */
  async function checkedServer(): Promise<readonly string[]> {
    for (;;) {
      try {
        return await health.check(allowVolatile, connection.user, backgroundTimeoutMs);
      } catch (cause) {
        if (cause instanceof StateOpenError) throw cause;
        if (leftMs() <= openAgainMs) {
          const fix = "check its log and the network, or give it more time with state.start_timeout";
          throw new StateOpenError(`Redis cannot be checked: ${meaningOf(cause)}`, fix, { cause });
        }
        await pause(clock, openAgainMs);
      }
    }
  }
}
