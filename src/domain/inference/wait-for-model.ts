import type { AbortFlag } from "../../lib/abort-source.js";
import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import type { Deployment } from "../catalog/deployment.js";
import type { LoadedModel } from "../engine/engine.js";

/** Retry-After when a load did not finish in time. */
const loadingRetryMs = 10_000;

/**
 * Resolves with the deployment's model once loaded (RETRY-4). Rejects with `model_loading` after `queueWaitMs`, with
 * `model_not_loaded` when loading failed, and with the call's own error when the signal aborts.
 */
export async function waitForModel(
  deployment: Deployment,
  deps: { readonly clock: Clock; readonly queueWaitMs: number },
  signal: AbortFlag,
): Promise<LoadedModel> {
  await raceAgainst(deployment, deps, signal);
  if (deployment.model !== null) return deployment.model;
  throw new ServiceError("model_not_loaded", notLoadedText, {
    cause: deployment.failure,
    retryAfterMs: loadingRetryMs,
  });
}

/** Names the three ways to get a model; the log has the cause. */
const notLoadedText =
  "The model could not be fetched or loaded; the service's log says why, and the list of models shows what can be used. " +
  "Its operator can fetch it from a mirror " +
  "(uis models pull SOURCE --id ID), import a file (uis models import FILE --id ID), or configure another engine.";

function stillLoadingText({ progress }: Deployment): string {
  if (progress === null || progress.share <= 0) return "The model is still being loaded.";
  const percent = Math.floor(progress.share * 100);
  return `The model is still being ${progress.stage === "fetching" ? "fetched" : "loaded"}: ${percent} % are done.`;
}

function raceAgainst(
  deployment: Deployment,
  deps: { readonly clock: Clock; readonly queueWaitMs: number },
  signal: AbortFlag,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(errorOfEnd(signal.reason));
    const onAbort = (): void => {
      cancelTimer();
      reject(errorOfEnd(signal.reason));
    };
    const cancelTimer = deps.clock.after(deps.queueWaitMs, () => {
      signal.removeEventListener("abort", onAbort);
      reject(new ServiceError("model_loading", stillLoadingText(deployment), { retryAfterMs: loadingRetryMs }));
    });
    signal.addEventListener("abort", onAbort);
    void deployment.loadEnded.then(() => {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
  });
}
