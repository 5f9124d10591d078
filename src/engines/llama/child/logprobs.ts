import type { TokenLogprob, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import type { TokenSpelling } from "./token-spelling.js";

/** Stands for "never": what JSON can say in place of minus infinity (RESP-9). */
const never = -9999;

/** What the samplers left of the probabilities, as log probabilities: of the token, and of the `top` most likely ones. */
export function tokenLogprob(
  token: number,
  probabilities: ReadonlyMap<number, number>,
  top: number,
  spelling: TokenSpelling,
): TokenLogprobInfo {
  const best: TokenLogprob[] = [];
  for (const [other, probability] of probabilities) {
    if (best.length === top || probability === 0) break;
    best.push({ ...spelling.spell(other), logprob: Math.log(probability) });
  }
  return { ...spelling.spell(token), logprob: logOf(probabilities.get(token)), top: best };
}

function logOf(probability: number | undefined): number {
  return probability === undefined || probability === 0 ? never : Math.log(probability);
}

interface HeldLogprob {
  readonly logprob: TokenLogprobInfo;
  /** Where its text ends in the generated text, in UTF-16 units; null until that text is complete. */
  end: number | null;
}

/** Keeps log probabilities until the text of their tokens goes out, so that each event has those of its own tokens. */
export class HeldLogprobs {
  #held: HeldLogprob[] = [];
  #generated = 0;
  #shown = 0;
  #inStep = true;

  /** `text`: what the token made complete; empty when it ends inside of a character. */
  add(logprob: TokenLogprobInfo, text: string): void {
    this.#held.push({ logprob, end: null });
    if (text === "") return;
    this.#generated += text.length;
    for (const held of this.#held) held.end ??= this.#generated;
  }

  /** The next event shows so much of the text: the tokens that it completes. */
  show(chars: number): readonly TokenLogprobInfo[] {
    if (!this.#inStep) return this.rest();
    this.#shown += chars;
    const open = this.#held.findIndex(({ end }) => end === null || end > this.#shown);
    const complete = this.#held.splice(0, open === -1 ? this.#held.length : open);
    return complete.map(({ logprob }) => logprob);
  }

  /** Text went into a call or into thinking, where log probabilities have no place; positions no longer agree. */
  drop(): void {
    this.#held = [];
    this.#inStep = false;
  }

  /** All that are left. */
  rest(): readonly TokenLogprobInfo[] {
    return this.#held.splice(0).map(({ logprob }) => logprob);
  }
}
