import type { StopSignal } from "../../lib/lazy-abort.js";
import { errorOfEnd } from "../call/call-context.js";

/** What the work brings, or a rejection with the end's own error: work that does not heed the signal is not waited for. */
export function unlessStopped<T>(work: Promise<T>, stop: StopSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(errorOfEnd(stop.reason));
    stop.addEventListener("abort", onAbort);
    const over = (): void => stop.removeEventListener("abort", onAbort);
    work.then(resolve, reject).finally(over);
  });
}
