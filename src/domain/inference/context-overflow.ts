import { EngineError } from "../engine/engine.js";

/**
 * The error of a prompt that alone is longer than the context. SDK users' tools look for "maximum context length is N
 * tokens" and read the number, so the phrase is fixed (ERR-26).
 */
export function contextOverflow(given: {
  readonly contextLength: number;
  readonly promptTokens: number;
  /** Output that was asked for; null: as much as fits. */
  readonly maxTokens: number | null;
  /** The field at fault; default `messages`. */
  readonly param?: string;
  readonly usage?: { readonly promptTokens: number; readonly outTokens: number; readonly cachedTokens: number };
}): EngineError {
  const asked = given.maxTokens === null ? "no particular number of" : String(given.maxTokens);
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${given.contextLength} tokens, but the prompt has ${given.promptTokens} tokens ` +
      `and ${asked} output tokens were requested. Shorten the prompt.`,
    { param: given.param ?? "messages", ...(given.usage === undefined ? {} : { usage: given.usage }) },
  );
}

/** The same for one input of an embeddings request, named by its position. */
export function inputOverflow(given: {
  readonly contextLength: number;
  readonly index: number;
  readonly inputTokens: number;
}): EngineError {
  const param = `input[${given.index}]`;
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${given.contextLength} tokens, but ${param} has ${given.inputTokens} tokens. ` +
      "Shorten it or split it.",
    { param },
  );
}
