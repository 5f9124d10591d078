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

interface ClosedPrompt {
  readonly base: number;
  readonly choices: number;
  readonly outTokens: number;
}

/**
 * Counts a request's usage from engine events: prompt tokens once per prompt, completion tokens over all choices
 * (CHAT-3, CMPL-13). The engine's final figures replace the running ones.
 */
export class UsageTally {
  // Lists start with one element, which is enough for most requests; an empty list would grow to 17.
  /** By the first choice of a prompt; sparse when prompts have several choices. */
  readonly #prompts: (PromptUsage | undefined)[] = [undefined];
  readonly #completionByChoice: number[] = [0];
  /** Final figures of prompts whose choices the engine counted together. */
  readonly #closedPrompts: (ClosedPrompt | undefined)[] = [undefined];

  /** Records that the prompt whose first choice is `base` was accepted. */
  prompt(base: number, promptTokens: number, cachedTokens: number, reasoningTokens = 0): void {
    this.#prompts[base] = { promptTokens, cachedTokens, reasoningTokens };
  }

  /** Sets the tokens of a choice so far. */
  produced(choice: number, outTokens: number): void {
    this.#completionByChoice[choice] = outTokens;
  }

  /** Sets the engine's final figures for `choices` choices from `base`. */
  close(base: number, choices: number, outTokens: number): void {
    this.#closedPrompts[base] = { base, choices, outTokens };
  }

  total(): UsageTotal {
    let promptTokens = 0;
    let cachedTokens = 0;
    let reasoningTokens = 0;
    for (const prompt of this.#prompts) {
      promptTokens += prompt?.promptTokens ?? 0;
      cachedTokens += prompt?.cachedTokens ?? 0;
      reasoningTokens += prompt?.reasoningTokens ?? 0;
    }
    return { promptTokens, cachedTokens, reasoningTokens, completionTokens: this.#completionTokens() };
  }

  #completionTokens(): number {
    let sum = 0;
    for (const tokens of this.#completionByChoice) sum += tokens ?? 0;
    for (const closed of this.#closedPrompts) {
      if (closed === undefined) continue;
      const { base, choices, outTokens } = closed;
      sum += outTokens;
      for (let choice = base; choice < base + choices; choice++) sum -= this.#completionByChoice[choice] ?? 0;
    }
    return sum;
  }
}
