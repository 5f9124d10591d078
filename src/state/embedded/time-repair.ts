import { existsSync, rmSync } from "node:fs";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { StateOpenError } from "../../domain/service/state.js";
import { startWorker } from "../../lib/start-worker.js";
import { StateBackups } from "./database/backup.js";
import { databaseFile, nameOfTime } from "./database/state-file.js";
import { type StoreLink, WorkerLink } from "./database/worker-link.js";
import type { RepairedRows } from "./future-times.js";
import { deliveryBounds, type StoreVerbs } from "./verbs.js";
import type { WorkerStart } from "./worker.js";

interface TimeRepair {
  readonly changed: RepairedRows;
  /** Copy of the database before the repair; null if nothing had to be changed. */
  readonly kept: string | null;
}

interface RepairRequest {
  readonly dataDir: string;
  readonly nowMs: number;
  readonly log: Logger;
}

/**
 * Sets all times that are later than `nowMs` to `nowMs`, in the file of a stopped service: usage of the future is added to
 * the present hour, day and month. Keeps a copy of the former file. If it fails, it changes nothing and rejects with
 * StateOpenError.
 */
export async function repairTimes({ dataDir, nowMs, log }: RepairRequest): Promise<TimeRepair> {
  const file = databaseFile(dataDir);
  if (!existsSync(file)) {
    throw new StateOpenError(`there is no state in ${dataDir}`, "name the data folder of the service with --data-dir");
  }
  const start: WorkerStart = { dataDir, bounds: deliveryBounds, newStore: false };
  const worker = await WorkerLink.open(startWorker(import.meta.url, start), log);
  const link: StoreLink<StoreVerbs> = worker;
  const backups = await StateBackups.open(link, file);
  const kept = `${file}.replaced-${nameOfTime(nowMs)}`;
  try {
    await backups.write(kept);
    const changed = await link.write("repairTimes", nowMs);
    if (Object.keys(changed).length > 0) return { changed, kept };
    rmSync(kept);
    return { changed, kept: null };
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    throw new StateOpenError(`${file} cannot be repaired: ${cause.message}`, "free some space on its disk", { cause });
  } finally {
    await worker.close();
    await backups.release();
  }
}
