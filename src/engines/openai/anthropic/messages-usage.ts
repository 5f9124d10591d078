import { isObject } from "../../../lib/json-string.js";
import type { ReadUsage } from "../answer/upstream-usage.js";
import { countOf } from "../protocol/upstream-failure.js";

/**
 * Usage of one answer of the Messages API, whose events each state a part of it. Prompt tokens are the sum of the tokens
 * that were not cached, that were read from the cache and that were written to it.
 */
export class MessagesUsage {
  #input = 0;
  #cacheRead = 0;
  #cacheCreation = 0;

  /** The usage so far; null: `usage` is no usage object. `isFinal`: the count of output tokens is that of the whole answer. */
  read(usage: unknown, isFinal: boolean): ReadUsage | null {
    if (!isObject(usage)) return null;
    this.#input = countOf(usage["input_tokens"]) ?? this.#input;
    this.#cacheRead = countOf(usage["cache_read_input_tokens"]) ?? this.#cacheRead;
    this.#cacheCreation = countOf(usage["cache_creation_input_tokens"]) ?? this.#cacheCreation;
    const promptTokens = this.#input + this.#cacheRead + this.#cacheCreation;
    const details = isObject(usage["output_tokens_details"]) ? usage["output_tokens_details"] : {};
    return {
      promptTokens: promptTokens === 0 ? null : promptTokens,
      cachedTokens: this.#cacheRead,
      outTokens: isFinal ? countOf(usage["output_tokens"]) : null,
      reasoningTokens: countOf(details["thinking_tokens"]),
    };
  }
}
