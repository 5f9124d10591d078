/**
 * The thread that owns the database: it opens the file, answers batches one at a time and closes the file. Syncs of the
 * disk (milliseconds) happen here and never in the way of requests.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../../domain/call/service-error.js";
import { StateOpenError } from "../../domain/service/state.js";
import { openStateFile } from "./database/state-file.js";
import { createRunBatch, createVerbs } from "./verbs.js";
import type { FromWorker, ToWorker, WorkerStart } from "./worker-link.js";

invariant(parentPort !== null, "the store's worker runs in a thread");
const port = parentPort;
const say = (message: FromWorker): void => port.postMessage(message);

try {
  const { dataDir, bounds } = workerData as WorkerStart;
  const { db, warnings } = openStateFile(dataDir);
  const runBatch = createRunBatch(db, createVerbs(db, bounds));
  port.on("message", (message: ToWorker) => {
    if (message.kind === "batch") {
      say({ kind: "outcomes", outcomes: runBatch(message.requests, message.isSynced) });
    } else {
      db.close();
      port.close();
    }
  });
  say({ kind: "opened", warnings });
} catch (error) {
  if (!(error instanceof StateOpenError)) throw error;
  say({ kind: "refused", message: error.message, fix: error.fix });
  port.close();
}
