import { errorOfEnd } from "../call-context.js";
import type { Deployment } from "../catalog/deployment.js";
import type { Clock } from "../ports.js";
import { ServiceError } from "../service-error.js";
import type { LoadedModel } from "./engine.js";

/** What a caller is told to wait when a load did not end in time. */
const loadingRetryMs = 10_000;

/**
 * The deployment's model as soon as it is loaded (RETRY-4). Rejects with `model_loading` after `queueWaitMs`, with
 * `model_not_loaded` when the load failed, and with the end's own error when the signal aborts.
 */
export async function waitForModel(
  deployment: Deployment,
  deps: { readonly clock: Clock; readonly queueWaitMs: number },
  signal: AbortSignal,
): Promise<LoadedModel> {
  await raceAgainst(deployment.loadEnded, deps, signal);
  if (deployment.model !== null) return deployment.model;
  throw new ServiceError("model_not_loaded", "The model's engine could not load it. The service's log says why.", {
    cause: deployment.failure,
    retryAfterMs: loadingRetryMs,
  });
}

function raceAgainst(
  loaded: Promise<void>,
  deps: { readonly clock: Clock; readonly queueWaitMs: number },
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(errorOfEnd(signal.reason));
    const onAbort = (): void => {
      cancelTimer();
      reject(errorOfEnd(signal.reason));
    };
    const cancelTimer = deps.clock.after(deps.queueWaitMs, () => {
      signal.removeEventListener("abort", onAbort);
      reject(new ServiceError("model_loading", "The model is still being loaded.", { retryAfterMs: loadingRetryMs }));
    });
    signal.addEventListener("abort", onAbort, { once: true });
    void loaded.then(() => {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
  });
}
