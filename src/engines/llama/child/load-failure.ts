import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildModel } from "../protocol.js";

/** Why a model could not be loaded and what to do about it. `logged`: what the native code complained about. */
export function loadFailure(model: ChildModel, thrown: unknown, logged: readonly string[]): EngineError {
  const message = `The model '${model.id}' cannot be loaded: ${explain(model, thrown, logged)}`;
  return new EngineError("model_not_loaded", message, { cause: thrown });
}

const pullAgain = "Fetch it again with 'uis models pull'.";

function explain(
  { path, moduleDir, contextLength, slots }: ChildModel,
  thrown: unknown,
  logged: readonly string[],
): string {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const complaints = logged.join("\n");
  // The binding's errors have classes, but no names of their own.
  switch ("code" in error ? error.code : error.constructor.name) {
    case "ENOENT":
      return `the file '${path}' does not exist. ${pullAgain}`;
    case "EACCES":
      return `the file '${path}' may not be read. Give the service's user read access to it.`;
    case "ERR_MODULE_NOT_FOUND":
      return `node-llama-cpp is not installed in '${moduleDir ?? "the service's own folder"}'. Install it there.`;
    case "NoBinaryFoundError":
      return "node-llama-cpp has no binary for this platform. Install the package again without '--omit=optional'.";
    case "InvalidGgufMagicError":
      return `the file '${path}' is no GGUF file. ${pullAgain}`;
    case "InsufficientMemoryError":
      return (
        `there is too little memory for ${slots} slots of ${contextLength} tokens (${error.message}). ` +
        "Lower the model's 'slots' or 'context_length'."
      );
  }
  const architecture = /unknown model architecture: '([^']*)'/.exec(complaints)?.[1];
  if (architecture !== undefined) {
    return `this version of node-llama-cpp does not know its architecture '${architecture}'. Choose another model.`;
  }
  if (/not within the file bounds|corrupted|incomplete|failed to read|unexpectedly reached end/.test(complaints)) {
    return `the file '${path}' is damaged or cut off. ${pullAgain}`;
  }
  const complaint = logged[0] === undefined ? "" : ` (${logged[0]})`;
  return `${error.message}${complaint}. Choose another model, or fetch this one again with 'uis models pull'.`;
}
