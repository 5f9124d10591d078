import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { State } from "../../../src/domain/service/state.js";
import type { AttemptEnd } from "../../../src/domain/webhooks/delivery.js";
import { type Delivery, deliveryId } from "../../../src/domain/webhooks/delivery.js";
import { Dispatcher, type DispatcherSettings } from "../../../src/domain/webhooks/dispatcher.js";
import type { EndpointRecord } from "../../../src/domain/webhooks/endpoint-store.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { SecretBox } from "../../../src/lib/crypto.js";
import { createWebhookSender } from "../../../src/outbound/webhook-sender.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { openRedisState } from "../../../src/state/redis/state.js";
import { event } from "../../suites/delivery-records.js";
import { endpoint, settlement } from "../../support/records.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { silentLog } from "../../support/silent-log.js";

export const drivers = ["embedded", "redis"] as const;

export const secret = "whsec_7XVwqFv8um23PqGh4WzC1pH7EYns1ohK/p6zy+/JNYg=";

/** Delays that are short enough for a test. */
const settings: Omit<DispatcherSettings, "isOnlyWorker"> = {
  budgetMs: 5_000,
  retryDelaysMs: [150, 300, 450],
  leaseMs: 15_000,
  inFlightMax: 64,
  disableAfterMs: 0,
};

/** A dispatcher with a real store and real HTTP requests to this machine. */
export interface RunningDispatch {
  readonly state: State;
  readonly dispatcher: Dispatcher;
  /** Every attempt that has ended. */
  readonly ends: readonly AttemptEnd[];
  /** Null if the store is embedded. */
  readonly redis: RedisServer | null;
  insert(id: string, url: string, changes?: Partial<EndpointRecord>): Promise<void>;
  /** Settles `count` requests with one event each; returns the ids of the endpoint's deliveries, in order. */
  emit(endpointId: string, count: number): Promise<string[]>;
  /** Resolves with the delivery once it has ended. */
  ended(id: string): Promise<Delivery>;
  close(): Promise<void>;
}

export async function startDispatch(
  driver: (typeof drivers)[number],
  changes: Partial<DispatcherSettings> = {},
): Promise<RunningDispatch> {
  const clock = createSystemClock();
  const { state, redis, remove } = await openStore(driver);
  const box = new SecretBox(Buffer.alloc(32, 3));
  const sender = createWebhookSender({
    allowHttp: true,
    allowPrivateCidrs: ["127.0.0.0/8"],
    allowPorts: [],
    dnsServers: [],
  });
  const ends: AttemptEnd[] = [];
  const dispatcher = new Dispatcher({
    queue: state.deliveries,
    endpoints: state.endpoints,
    changes: state.changes,
    secrets: box,
    sender,
    clock,
    now: () => state.now(),
    log: silentLog,
    observer: { attemptEnded: (end) => void ends.push(end), endpointsFailing() {} },
    live: { size: 0 },
    settings: { ...settings, isOnlyWorker: driver === "embedded", ...changes },
  });
  let made = 0;
  return {
    state,
    dispatcher,
    ends,
    redis,
    async insert(id, url, more = {}) {
      const secrets = [{ sealed: box.seal(secret, id), hint: secret.slice(-4), expiresAtMs: null }];
      await state.endpoints.insert(endpoint(id, { url, secrets, ...more }), 100);
    },
    async emit(endpointId, count) {
      const events = Array.from({ length: count }, () => event(made++));
      await Promise.all(events.map((each, i) => state.ledger.settle(settlement(`req_${made}_${i}`, { event: each }))));
      return events.map(({ id }) => deliveryId(id, endpointId));
    },
    async ended(id) {
      for (;;) {
        const delivery = await state.deliveries.find(id);
        if (delivery?.state === "delivered" || delivery?.state === "permanently_failed") return delivery;
        await delay(5);
      }
    },
    async close() {
      await dispatcher.close();
      sender.close();
      await state.close();
      await remove();
    },
  };
}

async function openStore(driver: (typeof drivers)[number]) {
  const clock = createSystemClock();
  if (driver === "embedded") {
    const dataDir = await mkdtemp(join(tmpdir(), "uis-dispatch-"));
    const state = await openEmbeddedState({ dataDir, log: silentLog, clock });
    return { state, redis: null, remove: () => rm(dataDir, { recursive: true }) };
  }
  const redis = await startRedis({ aof: "always" });
  const state = await openRedisState({ url: redis.url, tls: redis.tls, log: silentLog, clock, allowVolatile: false });
  return { state, redis, remove: () => redis.remove() };
}
