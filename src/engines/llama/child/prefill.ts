import type { NativeSequence } from "./native-model.js";
import type { StepBatcher } from "./step-batcher.js";

/** A piece of a prompt holds up running streams, and an abort, for about this long. */
const pieceMs = 50;
/** The same while no other call runs: an abort, and the first token of a call that comes meanwhile. */
const alonePieceMs = 200;
const pieceTokensMin = 8;

/**
 * How many tokens of a prompt are evaluated in one step: larger pieces are evaluated faster, and hold up others for longer.
 * Powers of two, so that a machine comes to rest at one size: pieces of different sizes round differently, and answers
 * would not repeat.
 */
export class PrefillPace {
  readonly #batchTokens: number;
  #tokensPerMs = 0;
  #pieceTokens = pieceTokensMin;

  /** `batchTokens`: tokens of one native call at most. A piece beside others takes half of it, the rest is for them. */
  constructor(batchTokens: number) {
    this.#batchTokens = batchTokens;
  }

  /** Tokens of a piece beside other calls. */
  get pieceTokens(): number {
    return this.#pieceTokens;
  }

  /** Tokens of a piece while no other call runs. */
  get alonePieceTokens(): number {
    return Math.max(this.#pieceTokens, Math.min(this.#tokensIn(alonePieceMs), this.#batchTokens));
  }

  /** Runs the evaluation of so many tokens and learns from the time that it takes, other calls' share included. */
  async measure(tokens: number, run: () => Promise<void>): Promise<void> {
    const startedAtMs = performance.now();
    await run();
    if (tokens >= pieceTokensMin) this.#learn(tokens / Math.max(performance.now() - startedAtMs, 0.01));
  }

  #learn(tokensPerMs: number): void {
    this.#tokensPerMs = this.#tokensPerMs === 0 ? tokensPerMs : (this.#tokensPerMs + tokensPerMs) / 2;
    const most = Math.min(2 * this.#pieceTokens, this.#batchTokens / 2);
    this.#pieceTokens = Math.max(Math.min(this.#tokensIn(pieceMs), most), pieceTokensMin);
  }

  #tokensIn(ms: number): number {
    return 2 ** Math.floor(Math.log2(Math.max(1, this.#tokensPerMs * ms)));
  }
}

/**
 * Finds the size of pieces before the first prompt comes, which would be evaluated slowly otherwise. Takes the time of
 * the smallest piece, or about twice that of a piece where larger ones are quick. The sequence is empty before and after.
 */
export async function findPace(
  pace: PrefillPace,
  sequence: Pick<NativeSequence, "evaluate" | "cutTo">,
  contextLength: number,
): Promise<void> {
  for (let tried = 0; tried < pace.pieceTokens && pace.pieceTokens < contextLength; ) {
    tried = pace.pieceTokens;
    const anyTokens = new Array<number>(tried).fill(0);
    await pace.measure(tried, () => sequence.evaluate(anyTokens));
    await sequence.cutTo(0);
  }
}

/**
 * Evaluates all but the last piece of the tokens and returns that piece: at least one token, from which to decode.
 * `check` is called before each piece and may throw.
 */
export async function prefill(
  sequence: NativeSequence,
  tokens: readonly number[],
  { turns, pace }: { readonly turns: StepBatcher; readonly pace: PrefillPace },
  check: () => void,
): Promise<readonly number[]> {
  let done = 0;
  for (;;) {
    const size = turns.isIdle ? pace.alonePieceTokens : pace.pieceTokens;
    if (tokens.length - done <= size) return tokens.slice(done);
    const piece = tokens.slice(done, done + size);
    const evaluate = async (): Promise<void> => {
      check();
      await pace.measure(piece.length, () => sequence.evaluate(piece));
    };
    await turns.step(evaluate, { isLong: true });
    done += piece.length;
  }
}
