/** Entry of the worker thread that converts one model, because seconds of work would block the server's event loop. */
import { parentPort, workerData } from "node:worker_threads";
import { ModelFileError } from "../files/model-files.js";
import { type BertConversion, convertBert } from "./convert-bert.js";
import type { ConversionOutcome } from "./run-conversion.js";

function toFailure(error: unknown): ConversionOutcome {
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "failed", fault: error instanceof ModelFileError ? error.fault : null, code, message };
}

const outcome: ConversionOutcome = await convertBert(workerData as BertConversion).then(
  (file) => ({ kind: "written", file }),
  toFailure,
);
parentPort?.postMessage(outcome);
