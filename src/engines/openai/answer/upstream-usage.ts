import type { EngineUsage } from "../../../domain/engine/engine.js";
import { listOf } from "../../../lib/collections.js";
import { isObject } from "../../../lib/json-string.js";
import { countOf } from "../protocol/upstream-failure.js";

export interface UsageFigures extends EngineUsage {
  readonly reasoningTokens: number;
}

/** The numbers of one `usage` object; null for missing ones. */
export interface ReadUsage {
  readonly promptTokens: number | null;
  readonly outTokens: number | null;
  readonly cachedTokens: number | null;
  readonly reasoningTokens: number | null;
}

/** Reads `usage` of a chunk in the spellings of all providers. Null: the chunk has none. */
export function readUsage(chunk: Readonly<Record<string, unknown>>): ReadUsage | null {
  const groq = chunk["x_groq"];
  const usage = chunk["usage"] ?? (isObject(groq) ? groq["usage"] : null);
  if (!isObject(usage)) return null;
  const ofPrompt = isObject(usage["prompt_tokens_details"]) ? usage["prompt_tokens_details"] : {};
  const ofAnswer = isObject(usage["completion_tokens_details"]) ? usage["completion_tokens_details"] : {};
  return {
    promptTokens: countOf(usage["prompt_tokens"]),
    outTokens: countOf(usage["completion_tokens"]),
    // DeepSeek's name for cached tokens.
    cachedTokens: countOf(ofPrompt["cached_tokens"]) ?? countOf(usage["prompt_cache_hit_tokens"]),
    reasoningTokens: countOf(ofAnswer["reasoning_tokens"]) ?? countOf(usage["reasoning_tokens"]),
  };
}

/** Reads the size of the prompt from llama.cpp's reports of its evaluation. Null: the chunk is no such report. */
export function readProgress(chunk: Readonly<Record<string, unknown>>): ReadUsage | null {
  const progress = chunk["prompt_progress"];
  if (!isObject(progress)) return null;
  const promptTokens = countOf(progress["total"]);
  return { promptTokens, outTokens: null, cachedTokens: countOf(progress["cache"]), reasoningTokens: null };
}

/**
 * Usage of one answer. Until the server states exact numbers, a chunk with content counts as one token. Usage in a chunk of
 * one choice belongs to that choice, and all choices are added up; usage in a chunk without choices is the total.
 */
export class AnswerUsage {
  readonly #estimatedPromptTokens: () => number;
  #promptTokens: number | null = null;
  #cachedTokens = 0;
  #reasoningTokens = 0;
  #totalOut: number | null = null;
  /** Output tokens of each choice: exact, or the number of chunks. */
  readonly #ofChoice: { tokens: number; chunks: number; isExact: boolean }[];

  constructor(choices: number, estimatedPromptTokens: () => number) {
    this.#estimatedPromptTokens = estimatedPromptTokens;
    this.#ofChoice = listOf(choices, () => ({ tokens: 0, chunks: 0, isExact: false }));
  }

  /** Counts a chunk with content. Returns the choice's number of tokens, including this chunk. */
  chunk(choice: number): number {
    const counts = this.#ofChoice[choice];
    if (counts === undefined) return 0;
    counts.chunks += 1;
    if (!counts.isExact) counts.tokens = counts.chunks;
    return counts.tokens;
  }

  /** Sets the exact number of output tokens of a choice so far; it never falls. */
  exact(choice: number, tokens: number): void {
    const counts = this.#ofChoice[choice];
    if (counts === undefined) return;
    counts.tokens = counts.isExact ? Math.max(counts.tokens, tokens) : tokens;
    counts.isExact = true;
  }

  /** Takes the numbers of a `usage` object. `choice` null: it is the usage of the whole answer. */
  take(usage: ReadUsage, choice: number | null): void {
    this.#promptTokens = usage.promptTokens ?? this.#promptTokens;
    this.#cachedTokens = usage.cachedTokens ?? this.#cachedTokens;
    this.#reasoningTokens = usage.reasoningTokens ?? this.#reasoningTokens;
    if (usage.outTokens === null) return;
    if (choice === null) this.#totalOut = usage.outTokens;
    else this.exact(choice, usage.outTokens);
  }

  get promptTokens(): number | null {
    return this.#promptTokens;
  }

  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  /** Output tokens of a choice: the number that the server states for it, or the total if it is the only choice. */
  outTokens(choice: number): number {
    return this.#ofChoice.length === 1 ? this.#out() : (this.#ofChoice[choice]?.tokens ?? 0);
  }

  /** The usage so far. */
  figures(): UsageFigures {
    const promptTokens = this.#promptTokens ?? this.#estimatedPromptTokens();
    const outTokens = this.#out();
    return {
      promptTokens,
      outTokens,
      cachedTokens: Math.min(this.#cachedTokens, promptTokens),
      reasoningTokens: Math.min(this.#reasoningTokens, outTokens),
    };
  }

  /**
   * Output tokens of all choices. If the total is 0 although chunks had content, the server does not count tokens. With
   * several choices, llama.cpp states the tokens of the last choice as the total.
   */
  #out(): number {
    const counted = this.#ofChoice.reduce((sum, { tokens }) => sum + tokens, 0);
    const total = this.#totalOut;
    if (total === null || (total === 0 && counted > 0)) return counted;
    return this.#ofChoice.length > 1 ? Math.max(total, counted) : total;
  }
}
