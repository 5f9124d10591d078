import { EngineError } from "../engine/engine.js";

/**
 * Error for a prompt that is longer than the context. Client tools parse "maximum context length is N tokens", so the
 * phrase is fixed (ERR-26).
 */
export function contextOverflow(given: {
  readonly contextLength: number;
  readonly promptTokens: number;
  /** True: the tokens were not counted, `promptTokens` is the least that the text can have. Default false. */
  readonly isAtLeast?: boolean;
  /** Requested output tokens; null if unlimited. */
  readonly maxTokens: number | null;
  /** The field at fault; default `messages`. */
  readonly param?: string;
  readonly usage?: { readonly promptTokens: number; readonly outTokens: number; readonly cachedTokens: number };
}): EngineError {
  const asked = given.maxTokens === null ? "no particular number of" : String(given.maxTokens);
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${given.contextLength} tokens, but the prompt has ${amount(given.promptTokens, given.isAtLeast)} tokens ` +
      `and ${asked} output tokens were requested. Shorten the prompt.`,
    { param: given.param ?? "messages", ...(given.usage === undefined ? {} : { usage: given.usage }) },
  );
}

/** The same for one input of an embeddings request. */
export function inputOverflow(given: {
  readonly contextLength: number;
  readonly index: number;
  readonly inputTokens: number;
  /** As for `contextOverflow`. */
  readonly isAtLeast?: boolean;
}): EngineError {
  const param = `input[${given.index}]`;
  return new EngineError(
    "context_overflow",
    `This model's maximum context length is ${given.contextLength} tokens, but ${param} has ${amount(given.inputTokens, given.isAtLeast)} tokens. ` +
      "Shorten it or split it.",
    { param },
  );
}

function amount(tokens: number, isAtLeast = false): string {
  return isAtLeast ? `at least ${tokens}` : String(tokens);
}
