import type { ChangeFeed, Clock, Logger, StateChange } from "../../domain/call/ports.js";
import type { State, StateHealth } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { startWorker } from "../../lib/start-worker.js";
import { StateBackups } from "./database/backup.js";
import { AdmissionJournal, createRunningRequests, readAdmissionJournal } from "./database/running-requests.js";
import { databaseFile } from "./database/state-file.js";
import { type StoreLink, WorkerLink } from "./database/worker-link.js";
import { createClaims } from "./deliveries/claiming.js";
import { createEndpointStore, DueListeners } from "./deliveries/endpoints.js";
import { createDeliveryLog } from "./deliveries/listing.js";
import { createRetries } from "./deliveries/retrying.js";
import { createKeyStore } from "./keys.js";
import { createEmbeddedLedger, type EmbeddedLedgerDeps, StoreTime } from "./ledger.js";
import { createLimitStore, createThresholdStore } from "./limits.js";
import { createRequestLogStore } from "./request-logs.js";
import { createResponseStore } from "./responses.js";
import { createSessionStore } from "./sessions.js";
import { createSettingsStore } from "./settings.js";
import { createDrainStore, createUpstreamStore } from "./upstreams.js";
import { createUsageReader } from "./usage.js";
import { type DeliveryBounds, deliveryBounds, type StoreVerbs } from "./verbs.js";
import type { WorkerStart } from "./worker.js";

export interface EmbeddedStateDeps extends Partial<DeliveryBounds> {
  readonly dataDir: string;
  readonly log: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** Lead of the store's time that causes a warning: periods and expiries are late by as much. */
const aheadWarnMs = 60_000;

/**
 * Opens the state kept in `<dataDir>/uis.db`: one file, one connection, one worker thread. One process at a time.
 * Rejects with StateOpenError, which names the cause and the fix.
 */
export async function openEmbeddedState(deps: EmbeddedStateDeps): Promise<State> {
  const { dataDir, log, clock = createSystemClock() } = deps;
  const { openDeliveriesMax, deliveredKeptMax } = { ...deliveryBounds, ...deps };
  const bounds = { openDeliveriesMax, deliveredKeptMax };
  const worker = await WorkerLink.open(startWorker(import.meta.url, { dataDir, bounds } satisfies WorkerStart), log);
  const link: StoresDeps["link"] = worker;
  for (const warning of worker.openWarnings) log.warn({ data_dir: dataDir }, warning);
  const [newestSettlementAtMs, rows, endpointCounts] = await Promise.all([
    link.read("newestSettlementAtMs"),
    link.read("liveRequests"),
    link.read("endpointCounts"),
  ]);
  const time = new StoreTime(clock, newestSettlementAtMs);
  const noted = readAdmissionJournal(dataDir);
  if (noted.unreadable > 0) {
    log.error({ lines: noted.unreadable }, "skipped damaged lines of the journal of running requests");
  }
  // The journal's last lines may lack a row. They get one before the journal is truncated.
  const settled = await link.read(
    "settledAmong",
    noted.rows.map(({ requestId }) => requestId),
  );
  const known = new Set([...rows.map(({ requestId }) => requestId), ...settled]);
  const unknown = noted.rows.filter(({ requestId }) => !known.has(requestId));
  if (unknown.length > 0) await link.write("noteLive", unknown);
  const journal = new AdmissionJournal(dataDir, () => clock.monotonic(), log);
  const running = createRunningRequests({ link: worker, journal, clock });
  const former = [...rows, ...unknown];
  const backups = new StateBackups(link, databaseFile(dataDir));
  return {
    ...createStores({ link, clock, time, former, running, endpointCounts }),
    kind: "embedded",
    backup: (file) => backups.write(file),
    health: () => healthOf(worker, time),
    async close() {
      await backups.stop();
      await worker.close();
      await backups.release();
      journal.close();
    },
  };
}

interface StoresDeps extends Omit<EmbeddedLedgerDeps, "link" | "readUsed" | "onDue"> {
  readonly link: StoreLink<StoreVerbs> & EmbeddedLedgerDeps["link"];
  /** Number of endpoints of each account that has any. */
  readonly endpointCounts: readonly (readonly [string, number])[];
}

/** The stores on a link to the database, in a file or in memory: verbs, and a notification after each change. */
export function createStores(deps: StoresDeps): Omit<State, "kind" | "backup" | "health" | "close"> {
  const { link, time, endpointCounts } = deps;
  const changes = new LocalChanges();
  const notify = (change: StateChange): void => changes.notify(change);
  const due = new DueListeners();
  const { now } = time;
  const usage = createUsageReader(link);
  return {
    keys: createKeyStore(link, notify),
    sessions: createSessionStore(link, notify),
    settings: createSettingsStore(link, notify),
    audit: { append: (record) => link.write("appendAudit", record), list: (page) => link.read("listAudit", page) },
    catalog: { firstSeen: (ids, nowMs) => link.write("firstSeen", ids, nowMs) },
    ledger: createEmbeddedLedger({ ...deps, readUsed: usage.used, onDue: due.notify }),
    limits: createLimitStore(link, notify),
    usage,
    thresholds: createThresholdStore(link, notify),
    upstreams: createUpstreamStore(link, notify),
    drains: createDrainStore(link, notify),
    requestLogs: createRequestLogStore(link),
    responses: createResponseStore(link),
    endpoints: createEndpointStore({ link, notify, due, counts: endpointCounts }),
    deliveries: {
      ...createClaims(link, now),
      ...createRetries(link, now, due),
      ...createDeliveryLog(link, now),
      onDue: due.subscribe,
    },
    changes,
    now,
    replicas: () => 1,
    purge: (max, budgetMs) => link.write("purge", max, now(), budgetMs),
  };
}

async function healthOf(link: WorkerLink, time: StoreTime): Promise<StateHealth> {
  const askedAtMs = performance.now();
  // Without other writes, a fault that is over would still be reported.
  if (link.writeFault !== null) await link.write("probe").catch(() => {});
  const problem = await link.read("ping").then(
    () => null,
    (error: Error) => error.message,
  );
  const warnings = [...link.openWarnings];
  if (problem !== null) warnings.push(problem);
  if (link.writeFault !== null) warnings.push(`The last write failed: ${link.writeFault}.`);
  const aheadMs = time.aheadMs();
  if (aheadMs > aheadWarnMs) {
    warnings.push(
      `The store's time is ${Math.round(aheadMs / 1000)} s ahead of this machine's clock, which was set back. ` +
        "Set the clock; if it is right, the difference shrinks by itself.",
    );
  }
  const latencyMs = performance.now() - askedAtMs;
  return { ok: problem === null, latencyMs, durability: "every-write", writeFault: link.writeFault, warnings };
}

/**
 * Change feed of a store that a single process uses: it never loses its link, and listeners run before `notify`
 * returns.
 */
class LocalChanges implements ChangeFeed {
  readonly isLinked = true;
  readonly isComplete = true;
  readonly #listeners = new Set<(change: StateChange) => void>();

  subscribe(listener: (change: StateChange) => void): () => void {
    // A new function each time, so that the same listener can subscribe twice and unsubscribe separately.
    const subscribed = (change: StateChange): void => listener(change);
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  }

  notify(change: StateChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}
