import { rm } from "node:fs/promises";
import { startWorker } from "../../lib/start-worker.js";
import { type FileSum, ModelFileError, type ModelFileFault } from "../files/model-files.js";
import type { BertConversion } from "./convert-bert.js";

/** The message that a conversion's thread sends at its end. */
export type ConversionOutcome =
  | { readonly kind: "written"; readonly file: FileSum }
  /** `fault` is null for an error that is no ModelFileError; `code` is the code of a system error. */
  | {
      readonly kind: "failed";
      readonly fault: ModelFileFault | null;
      readonly code: string | null;
      readonly message: string;
    };

/**
 * Runs `convertBert` in a worker thread. Rejects with ModelFileError or the system's error; an abort terminates the
 * thread and rejects with the signal's reason. If it rejects, the output file is removed.
 */
export async function runConversion(conversion: BertConversion, signal: AbortSignal): Promise<FileSum> {
  signal.throwIfAborted();
  const worker = startWorker(import.meta.url, conversion);
  const end = () => void worker.terminate();
  signal.addEventListener("abort", end, { once: true });
  try {
    const outcome = await new Promise<ConversionOutcome>((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
      worker.once("exit", () => reject(new Error("the conversion ended without a result")));
    });
    if (outcome.kind === "written") return outcome.file;
    const { fault, code, message } = outcome;
    if (fault !== null) throw new ModelFileError(fault, message);
    throw Object.assign(new Error(`the model could not be converted: ${message}`), code === null ? {} : { code });
  } catch (error) {
    await worker.terminate();
    await rm(conversion.out, { force: true });
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", end);
  }
}
