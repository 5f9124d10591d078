/** Tokens of one request. Integers, 0 or more. */
export interface UsageTotal {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly reasoningTokens: number;
}

interface PromptUsage {
  promptTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
}

/**
 * Counts what a request used, from an engine's events: prompt tokens once per prompt, completion tokens over all
 * choices (CHAT-3, CMPL-13). The engine's own closing figures replace what was seen on the way.
 */
export class UsageTally {
  /** By the first choice of a prompt, as below; a list with gaps where prompts have several choices. */
  readonly #prompts: PromptUsage[] = [];
  readonly #completionByChoice: number[] = [];
  /** Closing figures of prompts whose choices the engine counted together. */
  readonly #closedPrompts: { base: number; choices: number; outTokens: number }[] = [];

  /** The prompt whose first choice is `base` was accepted. */
  prompt(base: number, promptTokens: number, cachedTokens: number, reasoningTokens = 0): void {
    this.#prompts[base] = { promptTokens, cachedTokens, reasoningTokens };
  }

  /** Tokens of a choice so far. */
  produced(choice: number, outTokens: number): void {
    this.#completionByChoice[choice] = outTokens;
  }

  /** The engine's last word on the `choices` choices from `base` on. */
  close(base: number, choices: number, outTokens: number): void {
    this.#closedPrompts[base] = { base, choices, outTokens };
  }

  total(): UsageTotal {
    let promptTokens = 0;
    let cachedTokens = 0;
    let reasoningTokens = 0;
    // `forEach` leaves out the gaps.
    this.#prompts.forEach((prompt) => {
      promptTokens += prompt.promptTokens;
      cachedTokens += prompt.cachedTokens;
      reasoningTokens += prompt.reasoningTokens;
    });
    return { promptTokens, cachedTokens, reasoningTokens, completionTokens: this.#completionTokens() };
  }

  #completionTokens(): number {
    let sum = 0;
    for (const tokens of this.#completionByChoice) sum += tokens ?? 0;
    this.#closedPrompts.forEach(({ base, choices, outTokens }) => {
      sum += outTokens;
      for (let choice = base; choice < base + choices; choice++) sum -= this.#completionByChoice[choice] ?? 0;
    });
    return sum;
  }
}
