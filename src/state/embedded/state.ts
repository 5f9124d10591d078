import type { ChangeFeed, Clock, Logger, StateChange } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { ClockJumps } from "../../domain/service/clock-jumps.js";
import { type State, type StateHealth, StateOpenError } from "../../domain/service/state.js";
import { createSystemClock, StoreTime } from "../../lib/clock.js";
import { startWorker } from "../../lib/start-worker.js";
import { StateBackups } from "./database/backup.js";
import { FileWatch } from "./database/file-watch.js";
import { AdmissionJournal, createRunningRequests, readAdmissionJournal } from "./database/running-requests.js";
import { databaseFile } from "./database/state-file.js";
import { type StoreLink, WorkerLink } from "./database/worker-link.js";
import { createClaims } from "./deliveries/claiming.js";
import { createEndpointStore, DueListeners } from "./deliveries/endpoints.js";
import { createEventVerbs } from "./deliveries/fan-out.js";
import { createDeliveryLog } from "./deliveries/listing.js";
import { createRetries } from "./deliveries/retrying.js";
import { createKeyStore } from "./keys.js";
import { createEmbeddedLedger, type EmbeddedLedgerDeps } from "./ledger.js";
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
  /** Maximum time by which the store's time may be ahead of the clock; default 5 minutes. */
  readonly clockLeadMaxMs?: number;
  /** Whether to create an empty database if the former one is missing; otherwise opening fails. */
  readonly newStore?: boolean;
  /** Interval at which the files are compared with their paths; default one second. */
  readonly checkEveryMs?: number;
}

/**
 * If the store's time is ahead of the clock by this much, a warning is shown: periods and expiries are wrong by the
 * difference.
 */
const aheadWarnMs = 60_000;
const aheadFix =
  "Set the clock. If it is right, stop the service and run uis state repair-time, or wait: the difference shrinks by itself.";
/**
 * Pause of the purge after a jump of the clock: a clock that is set forward by mistake must not delete records that are
 * kept for days.
 */
const purgePauseMs = 3_600_000;
const defaultCheckEveryMs = 1_000;

/**
 * Opens the state kept in `<dataDir>/uis.db`: one file, one connection, one worker thread. One process at a time.
 * Rejects with StateOpenError, which names the cause and the fix.
 */
export async function openEmbeddedState(deps: EmbeddedStateDeps): Promise<State> {
  const { dataDir, log, newStore = false, ...bounds } = { ...deliveryBounds, ...deps };
  const { openDeliveriesMax, waitingEventsMax, deliveredKeptMax } = bounds;
  const start: WorkerStart = {
    dataDir,
    bounds: { openDeliveriesMax, waitingEventsMax, deliveredKeptMax },
    newStore,
  };
  const worker = await WorkerLink.open(startWorker(import.meta.url, start), log);
  for (const warning of worker.openWarnings) log.warn({ data_dir: dataDir }, warning);
  try {
    return await openOn(worker, deps);
  } catch (cause) {
    await worker.close();
    if (!(cause instanceof ServiceError)) throw cause;
    // A damaged file may be detected only here, because the parts that are read now were not read before.
    const fix = "free space on its disk or make it writable; a damaged file is replaced by uis restore FILE";
    const what = cause.message.replace(/^The store cannot be used: |\.$/g, "");
    throw new StateOpenError(`${databaseFile(dataDir)} cannot be used: ${what}`, fix, { cause });
  }
}

async function openOn(worker: WorkerLink, deps: EmbeddedStateDeps): Promise<State> {
  const { dataDir, log, clock = createSystemClock(), checkEveryMs = defaultCheckEveryMs } = deps;
  const link: StoresDeps["link"] = worker;
  const [newestSettlementAtMs, rows, endpointCounts] = await Promise.all([
    link.read("newestSettlementAtMs"),
    link.read("liveRequests"),
    link.read("endpointCounts"),
  ]);
  const { time, jumps } = createStoreClock({ ...deps, clock, link, seenAtMs: newestSettlementAtMs });
  if (time.now() < newestSettlementAtMs) {
    log.warn({ ahead_ms: time.aheadMs() }, "stored times are ahead of this machine's clock, which is used");
    await link.write("reschedule", time.now());
  }
  const noted = readAdmissionJournal(dataDir);
  if (noted.unreadable > 0) {
    log.error({ lines: noted.unreadable }, "skipped damaged lines of the journal of running requests");
  }
  // Requests in the last lines of the journal may have no row in the database. The rows are written before the journal is
  // truncated.
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
  const backups = await StateBackups.open(link, databaseFile(dataDir));
  const stores = createStores({ link, clock, time, jumps, former, running, endpointCounts });
  const onChange = (fault: string | null): void => {
    worker.writeRefusal = fault;
  };
  const files = new FileWatch({ dataDir, log, everyMs: checkEveryMs, onChange });
  return {
    ...stores,
    kind: "embedded",
    backup: (file) => backups.write(file),
    health: () => healthOf(worker, time, jumps),
    fileFault: () => files.fault,
    async close() {
      files.close();
      await backups.stop();
      await worker.close();
      await backups.release();
      journal.close();
    },
  };
}

interface StoreClockDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly link: Pick<StoreLink<StoreVerbs>, "write">;
  readonly seenAtMs: number;
  readonly clockLeadMaxMs?: number | undefined;
}

/**
 * The store's time, and a detector of jumps of the clock. After a jump back, due times of deliveries that were written
 * before it are corrected.
 */
export function createStoreClock({ clock, log, link, seenAtMs, clockLeadMaxMs: leadMaxMs }: StoreClockDeps) {
  const jumps = new ClockJumps({ whose: "this machine's clock", monotonic: () => clock.monotonic(), log });
  const time = new StoreTime(clock, {
    seenAtMs,
    ...(leadMaxMs !== undefined && { leadMaxMs }),
    onJump(byMs) {
      jumps.note(byMs);
      if (byMs > 0) return;
      link
        .write("reschedule", time.now())
        .catch((err: unknown) => log.warn({ err }, "deliveries could not be rescheduled after a jump of the clock"));
    },
  });
  return { time, jumps };
}

/** Health of the clock, as a part of the health of the store. */
export function clockHealth(time: StoreTime, jumps: ClockJumps) {
  const aheadMs = time.aheadMs();
  return {
    clock: { jumps: jumps.count, aheadMs },
    clockWarnings: jumps.warnings(aheadMs, aheadWarnMs, aheadFix),
  };
}

interface StoresDeps extends Omit<EmbeddedLedgerDeps, "link" | "readUsed" | "onDue"> {
  readonly link: StoreLink<StoreVerbs> & EmbeddedLedgerDeps["link"];
  readonly jumps: Pick<ClockJumps, "isWithin">;
  /** Number of endpoints of each account that has endpoints. */
  readonly endpointCounts: readonly (readonly [string, number])[];
}

/**
 * Creates the stores on a link to the database, in a file or in memory. A store calls verbs and notifies listeners after
 * each change.
 */
export function createStores(deps: StoresDeps): Omit<State, "kind" | "backup" | "health" | "fileFault" | "close"> {
  const { link, time, jumps, endpointCounts } = deps;
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
      ...createEventVerbs(link, now),
      ...createClaims(link, now),
      ...createRetries(link, now, due),
      ...createDeliveryLog(link, now),
      onDue: due.subscribe,
    },
    changes,
    now,
    replicas: () => 1,
    purge: async (max, budgetMs) =>
      jumps.isWithin(purgePauseMs) ? 0 : await link.write("purge", max, now(), budgetMs),
  };
}

async function healthOf(link: WorkerLink, time: StoreTime, jumps: ClockJumps): Promise<StateHealth> {
  const askedAtMs = performance.now();
  // A write is attempted now, because without other writes a fault that has ended would still be reported.
  if (link.writeFault !== null) await link.write("probe").catch(() => {});
  const problem = await link.read("ping").then(
    () => null,
    (error: Error) => error.message,
  );
  const { writeFault, openWarnings } = link;
  const warnings = [...openWarnings];
  if (problem !== null) warnings.push(problem);
  if (writeFault !== null) warnings.push(`The last write failed: ${writeFault}.`);
  const { clock, clockWarnings } = clockHealth(time, jumps);
  warnings.push(...clockWarnings);
  const latencyMs = performance.now() - askedAtMs;
  return { ok: problem === null, latencyMs, durability: "every-write", writeFault, clock, warnings };
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
