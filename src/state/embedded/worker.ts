/**
 * The thread that owns the database: it opens the file, runs batches and closes the file. Syncs of the disk (milliseconds)
 * happen here and never block requests.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../../domain/call/service-error.js";
import { StateOpenError } from "../../domain/service/state.js";
import { createRunBatch } from "./database/sqlite.js";
import { openStateFile } from "./database/state-file.js";
import { type FromWorker, serveLink } from "./database/worker-link.js";
import { createVerbs, type DeliveryBounds } from "./verbs.js";

export interface WorkerStart {
  readonly dataDir: string;
  readonly bounds: DeliveryBounds;
  /** Whether to create an empty database if the former one is missing. */
  readonly newStore: boolean;
}

invariant(parentPort !== null, "the store's worker runs in a thread");
try {
  const { dataDir, bounds, newStore } = workerData as WorkerStart;
  const { db, warnings } = openStateFile(dataDir, { newStore });
  serveLink(parentPort, createRunBatch(db, createVerbs(db, bounds)), () => db.close());
  parentPort.postMessage({ kind: "opened", warnings } satisfies FromWorker);
} catch (error) {
  if (!(error instanceof StateOpenError)) throw error;
  parentPort.postMessage({ kind: "refused", message: error.message, fix: error.fix } satisfies FromWorker);
  parentPort.close();
}
