import type { GenEvent, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { never } from "./choice-output.js";
import type { NativeSequence, NativeVocabulary, PositionScore } from "./native-model.js";
import type { PrefillPace, StepBatcher } from "./steps.js";
import type { SpelledToken, TokenSpelling } from "./token-spelling.js";

/**
 * Maximum positions of one step. llama.cpp keeps the logits of all of them until the next step, four bytes per position and
 * token of the vocabulary: 20 MB with 150,000 tokens.
 */
export const scoredTokensMax = 32;

export interface ScoringDeps {
  readonly model: { readonly vocabulary: Pick<NativeVocabulary, "hidden"> };
  readonly spelling: Pick<TokenSpelling, "spell">;
  readonly batcher: StepBatcher;
  readonly scoringPace: PrefillPace;
}

export interface EchoedPrompt {
  /** At least one. */
  readonly tokens: readonly number[];
  readonly text: string;
  /** Number of alternatives per position. */
  readonly alternatives: number;
}

/**
 * Evaluates all but the last token of a prompt on an empty sequence, and emits the prompt's text with the log probability of
 * each token given the tokens before it (CMPL-8), in one event per step. `check` is called before each step and may throw.
 */
export async function echoWithLogprobs(
  sequence: Pick<NativeSequence, "score">,
  { tokens, text, alternatives }: EchoedPrompt,
  deps: ScoringDeps,
  check: () => void,
  emit: (event: GenEvent) => void,
): Promise<void> {
  const { batcher, scoringPace: pace, spelling } = deps;
  const parts = new PromptParts(text, deps);
  const [first = -1] = tokens;
  let logprobs: TokenLogprobInfo[] = [{ ...parts.spell(first), logprob: Number.NaN, top: [] }];
  const last = tokens.length - 1;
  for (let from = 0; from < last; ) {
    const size = batcher.isIdle ? pace.alonePieceTokens : pace.pieceTokens;
    const to = Math.min(from + size, last);
    const run = () => sequence.score(tokens.slice(from, to), tokens.slice(from + 1, to + 1), alternatives);
    const score = async (): Promise<readonly PositionScore[]> => {
      check();
      // A shorter step would make the pace look slow.
      return to - from < size ? run() : pace.measure(size, run);
    };
    for (const [i, { logprob, top }] of (await batcher.step(score, { isLong: true })).entries()) {
      logprobs.push({
        ...parts.spell(tokens[from + 1 + i] ?? -1),
        logprob: Math.max(logprob, never),
        top: top.map(([token, ofToken]) => ({ ...spelling.spell(token), logprob: ofToken })),
      });
    }
    from = to;
    if (from === last) break;
    emit({ type: "text", choice: 0, text: parts.take(logprobs), outTokens: 0, logprobs });
    logprobs = [];
  }
  emit({ type: "text", choice: 0, text: parts.rest(), outTokens: 0, logprobs });
}

/** Divides the text of a prompt among its tokens. The joined parts equal the text, even if the tokens spell another one. */
class PromptParts {
  readonly #text: string;
  readonly #hidden: ReadonlySet<number>;
  readonly #spelling: Pick<TokenSpelling, "spell">;
  #at = 0;
  #hasText = false;

  constructor(text: string, { model, spelling }: Pick<ScoringDeps, "model" | "spelling">) {
    this.#text = text;
    this.#hidden = model.vocabulary.hidden;
    this.#spelling = spelling;
  }

  /** Spells the next token of the prompt. `bytes` are set if the token has other bytes in the text than alone. */
  spell(token: number): SpelledToken {
    const spelled = this.#spelling.spell(token);
    if (this.#hidden.has(token)) return { ...spelled, bytes: [] };
    const isFirst = !this.#hasText;
    this.#hasText = true;
    const shown = spelled.token.slice(1);
    // Some vocabularies add a space before a text.
    const hasSpace = isFirst && spelled.token.startsWith(" ") && !this.#text.startsWith(spelled.token);
    return hasSpace && this.#text.startsWith(shown) ? { ...spelled, bytes: [...Buffer.from(shown)] } : spelled;
  }

  /** The text of the next tokens: all characters that begin in one of them. */
  take(tokens: readonly SpelledToken[]): string {
    const from = this.#at;
    for (let left = tokens.reduce((sum, token) => sum + charactersOf(token), 0); left > 0; left--) {
      this.#at += (this.#text.codePointAt(this.#at) ?? 0) > 0xffff ? 2 : 1;
    }
    return this.#text.slice(from, this.#at);
  }

  rest(): string {
    return this.#text.slice(this.#at);
  }
}

/** Characters that begin in a token: all bytes of UTF-8 but continuation bytes begin one. */
function charactersOf({ token, bytes }: SpelledToken): number {
  return (bytes ?? [...Buffer.from(token)]).filter((byte) => byte < 0x80 || byte > 0xbf).length;
}
