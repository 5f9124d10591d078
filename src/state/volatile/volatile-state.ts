import { LocalChanges } from "../../domain/call/change-feed.js";
import type { Clock } from "../../domain/call/ports.js";
import type { UsageReader } from "../../domain/metering/usage-store.js";
import type { State } from "../../domain/service/state.js";
import {
  deliveredKeptMax as defaultDeliveredMax,
  openDeliveriesMax as defaultOpenMax,
} from "../../domain/webhooks/delivery-queue.js";
import { createSystemClock } from "../../lib/clock.js";
import { UsageTable } from "./usage-table.js";
import { createVolatileAuditLog } from "./volatile-audit-log.js";
import { createVolatileCatalogStore } from "./volatile-catalog-store.js";
import { VolatileDeliveryQueue } from "./volatile-delivery-queue.js";
import { createVolatileEndpointStore } from "./volatile-endpoint-store.js";
import { createVolatileKeyStore, type VolatileKeyStore } from "./volatile-key-store.js";
import { createVolatileLedger } from "./volatile-ledger.js";
import { createVolatileLimitStore } from "./volatile-limit-store.js";
import { createVolatileSessionStore } from "./volatile-session-store.js";
import { createVolatileSettingsStore } from "./volatile-settings-store.js";
import { createVolatileThresholdStore } from "./volatile-threshold-store.js";

const accountsMax = 10_000;

export interface VolatileStateDeps {
  /** Default: the system's. */
  readonly clock?: Clock;
  /** As in the constants of the same names, which are the defaults. */
  readonly openDeliveriesMax?: number;
  readonly deliveredKeptMax?: number;
}

/** Everything in memory (`state.durability: none`): tests, demonstrations and the benchmark's baseline. */
export function createVolatileState(deps: VolatileStateDeps = {}): State {
  const { clock = createSystemClock() } = deps;
  const { openDeliveriesMax = defaultOpenMax, deliveredKeptMax = defaultDeliveredMax } = deps;
  const changes = new LocalChanges();
  const keys = createVolatileKeyStore(changes);
  const sessions = createVolatileSessionStore(changes);
  const audit = createVolatileAuditLog();
  const usage = new UsageTable();
  const endpoints = createVolatileEndpointStore(changes);
  const deliveries = new VolatileDeliveryQueue({ clock, endpoints, openDeliveriesMax, deliveredKeptMax });
  changes.subscribe((change) => {
    if (change.kind === "endpoint") deliveries.endpointChanged(change.id);
  });
  return {
    kind: "volatile",
    keys,
    sessions,
    settings: createVolatileSettingsStore(changes),
    audit,
    catalog: createVolatileCatalogStore(),
    ledger: createVolatileLedger({ clock, usage, endpoints, deliveries }),
    limits: createVolatileLimitStore(changes),
    usage: usageReader(usage, keys),
    thresholds: createVolatileThresholdStore(changes),
    endpoints,
    deliveries,
    changes,
    now: () => clock.now(),
    replicas: () => 1,
    async purge(max) {
      const nowMs = clock.now();
      let purged = sessions.purge(nowMs, max);
      purged += audit.purge(nowMs, max - purged);
      purged += deliveries.purge(nowMs, max - purged);
      return purged + usage.purge(nowMs, max - purged);
    },
    backup: null,
    health: async () => ({
      ok: true,
      latencyMs: 0,
      durability: "none",
      warnings: ["State is kept in memory and is lost at the next start. Remove state.durability: none to keep it."],
    }),
    close: async () => {},
  };
}

function usageReader(usage: UsageTable, keys: VolatileKeyStore): UsageReader {
  return {
    rows: async (range) => usage.rows(range),
    accounts: async () => [...new Set([...usage.accounts(), ...keys.accounts()])].sort().slice(0, accountsMax),
    used: async (account, scope, period) => usage.used(account, scope, period),
  };
}
