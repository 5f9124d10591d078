import { rm } from "node:fs/promises";
import type { Worker } from "node:worker_threads";
import { startWorker } from "../../lib/start-worker.js";
import { ModelFileError, type ModelFileFault } from "../files/model-errors.js";
import type { WrittenFile } from "../gguf/gguf-writer.js";
import type { BertConversion } from "./convert-bert.js";

/**
 * Runs `convertBert` in a thread of its own. Rejects with ModelFileError or the system's error; on abort the thread is
 * ended and the reason thrown. Whenever it rejects, the file it was writing is gone.
 */
export async function runConversion(conversion: BertConversion, signal: AbortSignal): Promise<WrittenFile> {
  signal.throwIfAborted();
  const worker = startWorker(import.meta.url, conversion);
  const end = () => void worker.terminate();
  signal.addEventListener("abort", end, { once: true });
  try {
    const outcome = await outcomeOf(worker);
    if (outcome.kind === "written") return outcome.file;
    throw toError(outcome);
  } catch (error) {
    await worker.terminate();
    await rm(conversion.out, { force: true });
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function outcomeOf(worker: Worker): Promise<ConversionOutcome> {
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", () => reject(new Error("the conversion ended without a word")));
  });
}

function toError({ fault, code, message }: Extract<ConversionOutcome, { kind: "failed" }>): Error {
  if (fault !== null) return new ModelFileError(fault, message);
  return Object.assign(new Error(`the model could not be converted: ${message}`), code === null ? {} : { code });
}

/** What the thread of a conversion says, once, at its end. */
export type ConversionOutcome =
  | { readonly kind: "written"; readonly file: WrittenFile }
  /** `fault` is null for an error that is no ModelFileError; `code` is that of a system error. */
  | {
      readonly kind: "failed";
      readonly fault: ModelFileFault | null;
      readonly code: string | null;
      readonly message: string;
    };
