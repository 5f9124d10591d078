import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildError } from "../protocol.js";

/** What is thrown in the child, as it goes through the channel. Causes stay here, so a failure's is put into words. */
export function toChildError(thrown: unknown): ChildError {
  if (!(thrown instanceof EngineError)) {
    return { code: "internal", message: wordsOf(thrown), retryable: true, param: null, usage: null };
  }
  const { code, retryable, param, usage } = thrown;
  const isPrivate = code === "internal" && thrown.cause !== undefined;
  const message = isPrivate ? `${thrown.message}: ${wordsOf(thrown.cause)}` : thrown.message;
  return { code, message, retryable, param, usage };
}

function wordsOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
