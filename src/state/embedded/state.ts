import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { State, StateHealth } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import { startWorker } from "../../lib/start-worker.js";
import { type DeliveryBounds, deliveryBounds } from "./deliveries/delivery-rows.js";
import { StoreTime } from "./ledger.js";
import type { LiveRow } from "./live-requests.js";
import { AdmissionJournal, RunningRequests, readAdmissionJournal } from "./running-requests.js";
import { createStores } from "./stores.js";
import { WorkerLink, type WorkerStart } from "./worker-link.js";

export interface EmbeddedStateDeps extends Partial<DeliveryBounds> {
  readonly dataDir: string;
  readonly log: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** Ahead by more than this, the store's time is worth a warning: periods and expiries are late by as much. */
const aheadWarnMs = 60_000;

/**
 * Opens the state kept in `<dataDir>/uis.db`: one file, one connection, one worker thread. One process at a time.
 * Rejects with StateOpenError, which names the cause and the fix.
 */
export async function openEmbeddedState(deps: EmbeddedStateDeps): Promise<State> {
  const { dataDir, log, clock = createSystemClock() } = deps;
  const { openDeliveriesMax, deliveredKeptMax } = { ...deliveryBounds, ...deps };
  const bounds = { openDeliveriesMax, deliveredKeptMax };
  const link = await WorkerLink.open(startWorker(import.meta.url, { dataDir, bounds } satisfies WorkerStart), log);
  for (const warning of link.openWarnings) log.warn({ data_dir: dataDir }, warning);
  const [newestSettlementAtMs, former, endpointCounts] = await Promise.all([
    link.read("newestSettlementAtMs"),
    link.read("liveRequests"),
    link.read("endpointCounts"),
  ]);
  const time = new StoreTime(clock, newestSettlementAtMs);
  const { rows: noted, unreadable } = readAdmissionJournal(dataDir);
  if (unreadable > 0) log.error({ lines: unreadable }, "skipped damaged lines of the journal of running requests");
  const left = await leftBehind(link, former, noted);
  const journal = new AdmissionJournal(dataDir, () => clock.monotonic(), log);
  const running = new RunningRequests({ link, journal, clock });
  return {
    ...createStores({ link, clock, time, former: left, running, endpointCounts }),
    kind: "embedded",
    backup: (file) => backUp(link, file),
    health: () => healthOf(link, time),
    async close() {
      await link.close();
      journal.close();
    },
  };
}

/**
 * What the process before this one left running: rows of the file, and what it noted in its last moments that the file
 * does not know. Those that only the journal has become rows, before the journal begins anew.
 */
async function leftBehind(
  link: WorkerLink,
  rows: readonly LiveRow[],
  noted: readonly LiveRow[],
): Promise<readonly LiveRow[]> {
  const known = new Set([...rows.map(({ requestId }) => requestId), ...(await link.read("settledAmong", noted))]);
  const unknown = noted.filter(({ requestId }) => !known.has(requestId));
  if (unknown.length > 0) await link.write("noteLive", unknown);
  return [...rows, ...unknown];
}

async function backUp(link: WorkerLink, file: string): Promise<void> {
  const folder = dirname(file);
  if (!existsSync(folder)) {
    throw new ServiceError(
      "storage_unavailable",
      `The backup cannot be written: there is no folder ${folder}. Make it, or name another.`,
    );
  }
  const isWritten = await link.read("backUp", file).catch((cause: unknown) => {
    throw new ServiceError("storage_unavailable", `The backup cannot be written to ${file}: ${reasonOf(cause)}`, {
      cause,
    });
  });
  if (!isWritten) throw new ServiceError("conflict", `${file} exists and is not overwritten. Name another file.`);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function healthOf(link: WorkerLink, time: StoreTime): Promise<StateHealth> {
  const askedAtMs = performance.now();
  // Nothing else may be writing, so a fault that is over would go on to be reported.
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
