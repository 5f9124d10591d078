import { LocalChanges } from "../../domain/call/change-feed.js";
import type { State } from "../../domain/service/state.js";
import { createAuditLog, createKeyStore, createSessionStore, createSettingsStore } from "./access-stores.js";
import { createLimitStore, createThresholdStore, createUsageReader } from "./account-stores.js";
import { createDeliveryQueue } from "./deliveries/delivery-queue.js";
import { DueListeners } from "./deliveries/due-listeners.js";
import { createEndpointStore } from "./embedded-endpoint-store.js";
import { EmbeddedLedger, type EmbeddedLedgerDeps } from "./embedded-ledger.js";

export interface StoresDeps extends Omit<EmbeddedLedgerDeps, "onDue"> {
  /** Number of endpoints of each account that has any. */
  readonly endpointCounts: readonly (readonly [string, number])[];
}

/** Everything of `State` that the database in a file and the one in memory have in common. */
export function createStores(deps: StoresDeps): Omit<State, "kind" | "backup" | "health" | "close"> {
  const { link, time, endpointCounts } = deps;
  const changes = new LocalChanges();
  const due = new DueListeners();
  return {
    keys: createKeyStore(link, changes),
    sessions: createSessionStore(link, changes),
    settings: createSettingsStore(link, changes),
    audit: createAuditLog(link),
    catalog: { firstSeen: (ids, nowMs) => link.write("firstSeen", ids, nowMs) },
    ledger: new EmbeddedLedger({ ...deps, onDue: () => due.tell() }),
    limits: createLimitStore(link, changes),
    usage: createUsageReader(link),
    thresholds: createThresholdStore(link, changes),
    endpoints: createEndpointStore({ link, changes, due, counts: endpointCounts }),
    deliveries: createDeliveryQueue(link, time, due),
    changes,
    now: () => time.now(),
    replicas: () => 1,
    purge: (max) => link.write("purge", max, time.now()),
  };
}
