import { EngineError } from "../../../domain/engine/engine.js";
import { contextOverflow, inputOverflow } from "../../../domain/engine/engine-error.js";
import type { AbortFlag } from "../../../lib/abort-source.js";
import type { ChildEmbed, ChildError, ChildInput, LoadedFacts, ProducedTokens } from "./protocol.js";

/** Errors of calls, in one place because several stages of a call can end with the same one. */

const nothingProduced: ProducedTokens = { promptTokens: 0, outTokens: 0, cachedTokens: 0 };

export function abortedError(signal: AbortFlag, usage: ProducedTokens = nothingProduced): EngineError {
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

export type TextLimits = Pick<LoadedFacts, "contextLength" | "longestTokenBytes">;

/**
 * The error of a prompt that cannot fit into the context whatever its tokens are, found by its length alone: tokenizing it
 * would keep the child busy for nothing. Null: it may fit. `text` is all that the prompt is made of.
 */
export function overflowByLength(input: ChildInput, maxTokens: number | null, limits: TextLimits): EngineError | null {
  const param = input.type === "chat" ? "messages" : "prompt";
  const promptTokens = input.type === "tokens" ? input.tokens.length : fewestTokens(textsOf(input), limits);
  const { contextLength } = limits;
  if (input.type === "tokens" ? promptTokens <= contextLength : promptTokens <= contextLength + 1) return null;
  return contextOverflow({ contextLength, promptTokens, isAtLeast: input.type !== "tokens", maxTokens, param });
}

/** The same for the inputs of an embeddings request. */
export function inputOverflowByLength({ inputs }: ChildEmbed, limits: TextLimits): EngineError | null {
  const { contextLength } = limits;
  for (const [index, input] of inputs.entries()) {
    if (typeof input !== "string") continue;
    const inputTokens = fewestTokens([input], limits);
    if (inputTokens > contextLength + 1) return inputOverflow({ contextLength, index, inputTokens, isAtLeast: true });
  }
  return null;
}

/** Tokens that texts have at least: each is as long as the longest one of the vocabulary. */
export function fewestTokens(texts: Iterable<string>, { longestTokenBytes }: TextLimits): number {
  let bytes = 0;
  for (const text of texts) bytes += Buffer.byteLength(text);
  return Math.ceil(bytes / longestTokenBytes);
}

function* textsOf(input: Exclude<ChildInput, { type: "tokens" }>): Generator<string, void, undefined> {
  if (input.type === "text") yield input.text;
  else for (const { content } of input.messages) yield content;
}
