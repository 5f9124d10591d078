import { CommandError } from "./cli-io.js";

/**
 * Runs work that Ctrl-C and SIGTERM cancel; a second Ctrl-C ends the process immediately. After a signal it
 * rejects with a CommandError whose text is `consequence`, else with the error of the work.
 */
export async function untilInterrupt<T>(consequence: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const cancel = (): void => abort.abort();
  process.once("SIGINT", cancel).once("SIGTERM", cancel);
  try {
    return await work(abort.signal);
  } catch (error) {
    throw abort.signal.aborted ? new CommandError(consequence, { cause: error }) : error;
  } finally {
    process.off("SIGINT", cancel).off("SIGTERM", cancel);
  }
}
