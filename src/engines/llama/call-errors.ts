import { EngineError } from "../../domain/engine/engine.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import type { ChildError, ProducedTokens } from "./protocol.js";

/** Errors of calls, in one place because several stages of a call can end with the same one. */

const nothingProduced: ProducedTokens = { promptTokens: 0, outTokens: 0, cachedTokens: 0 };

export function abortedError(signal: StopSignal, usage: ProducedTokens = nothingProduced): EngineError {
  return new EngineError("aborted", "the call was aborted", { usage, cause: signal.reason });
}

/** The child that ran the call is gone. */
export function restartedError(usage: ProducedTokens, retryable: boolean): EngineError {
  return new EngineError("engine_restarted", "the engine's process ended during the call", { retryable, usage });
}

export function unloadedError(modelId: string): EngineError {
  return new EngineError("model_not_loaded", `the model '${modelId}' was unloaded`, { retryable: true });
}

/** An error that the child reported. `usage` counts when the child says nothing itself. */
export function reportedError(error: ChildError, usage: ProducedTokens): EngineError {
  return new EngineError(error.code, error.message, {
    retryable: error.retryable,
    usage: error.usage ?? usage,
    ...(error.param === null ? {} : { param: error.param }),
  });
}
