import type { NativeSequence } from "./native-model.js";

/**
 * Runs the steps of all calls of a context in batches: a batch has one step of every call that waits, and the next one
 * begins when all of them are done.
 *
 * Otherwise the binding starts a native batch as soon as one call is ready: calls that fit into one batch run one after
 * another, and its lock stays taken while two calls continue, so that a third that has to cut its sequence waits for both.
 *
 * A batch has at most one long step, which evaluates several tokens of a prompt; calls take turns with long steps. The size
 * of a long step is measured for a batch with one: several would delay running streams and aborts.
 */
export class StepBatcher {
  #running = 0;
  #waiting: (() => void)[] = [];
  #waitingLong: (() => void)[] = [];
  #atEnd: (() => void)[] = [];
  #scheduled = false;

  /** Whether no other call has a step that runs or waits; valid between two steps of a call. */
  get isIdle(): boolean {
    return this.#running + this.#waiting.length + this.#waitingLong.length === 0;
  }

  /** Runs a step in the next batch; a long one in the next batch that has none. Steps of one call must not overlap. */
  async step<T>(run: () => Promise<T>, { isLong = false } = {}): Promise<T> {
    await new Promise<void>((resolve) => {
      (isLong ? this.#waitingLong : this.#waiting).push(resolve);
      this.#schedule();
    });
    try {
      return await run();
    } finally {
      this.#running--;
      this.#schedule();
    }
  }

  /** Calls back once, after the current batch, without delaying the next one. */
  atEnd(callback: () => void): void {
    this.#atEnd.push(callback);
    this.#schedule();
  }

  /** Schedules the next batch for when all calls have processed the results of their steps and requested the next ones. */
  #schedule(): void {
    if (this.#running > 0 || this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => {
      this.#scheduled = false;
      this.#begin();
    });
  }

  #begin(): void {
    const starting = [...this.#waiting, ...this.#waitingLong.splice(0, 1)];
    this.#waiting = [];
    this.#running = starting.length;
    for (const start of starting) start();
    const ended = this.#atEnd.splice(0);
    if (ended.length === 0) return;
    setImmediate(() => {
      for (const callback of ended) callback();
    });
  }
}

/** Target duration of a prefill step, which delays running streams and aborts. */
const pieceMs = 50;
/** Maximum duration of a piece while no other call runs: it delays an abort and the first token of the next call. */
const alonePieceMs = 200;
const pieceTokensMin = 8;

/**
 * Number of tokens in a piece of a prompt: larger pieces are evaluated faster, but delay other calls longer. A power of two,
 * so that a machine settles on one size: pieces of different sizes round differently, and answers would not repeat.
 */
export class PrefillPace {
  /** Tokens of a piece while other calls run. */
  pieceTokens: number;
  readonly #batchTokens: number;
  readonly #tokensMin: number;
  #tokensPerMs = 0;

  /**
   * `batchTokens`: maximum tokens of one native call; a piece takes at most half of it while other calls run. `tokensMin`:
   * smallest piece, even if it takes longer than the target.
   */
  constructor(batchTokens: number, tokensMin = pieceTokensMin) {
    this.#batchTokens = batchTokens;
    this.#tokensMin = tokensMin;
    this.pieceTokens = tokensMin;
  }

  /** Tokens of a piece while no other call runs. */
  get alonePieceTokens(): number {
    return Math.max(this.pieceTokens, Math.min(this.#tokensIn(alonePieceMs), this.#batchTokens));
  }

  /** Runs the evaluation of `tokens` tokens and adapts the pace to its duration, which includes time spent on other calls. */
  async measure<T>(tokens: number, run: () => Promise<T>): Promise<T> {
    const startedAtMs = performance.now();
    const result = await run();
    if (tokens < this.#tokensMin) return result;
    const tokensPerMs = tokens / Math.max(performance.now() - startedAtMs, 0.01);
    this.#tokensPerMs = this.#tokensPerMs === 0 ? tokensPerMs : (this.#tokensPerMs + tokensPerMs) / 2;
    const most = Math.min(2 * this.pieceTokens, this.#batchTokens / 2);
    this.pieceTokens = Math.max(Math.min(this.#tokensIn(pieceMs), most), this.#tokensMin);
    return result;
  }

  #tokensIn(ms: number): number {
    return 2 ** Math.floor(Math.log2(Math.max(1, this.#tokensPerMs * ms)));
  }
}

/**
 * Measures the size of pieces in advance, because the first prompt would otherwise be evaluated in small pieces. Takes the
 * time of the smallest piece, or about twice the target duration of a piece on a fast machine. The sequence is empty before
 * and after.
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
 * Evaluates all but the last piece of the tokens and returns that piece of at least one token, with which decoding begins.
 * `check` is called before each piece and may throw.
 */
export async function prefill(
  sequence: NativeSequence,
  tokens: readonly number[],
  { batcher, pace }: { readonly batcher: StepBatcher; readonly pace: PrefillPace },
  check: () => void,
): Promise<readonly number[]> {
  let done = 0;
  for (;;) {
    const size = batcher.isIdle ? pace.alonePieceTokens : pace.pieceTokens;
    if (tokens.length - done <= size) return tokens.slice(done);
    const piece = tokens.slice(done, done + size);
    const evaluate = async (): Promise<void> => {
      check();
      await pace.measure(piece.length, () => sequence.evaluate(piece));
    };
    await batcher.step(evaluate, { isLong: true });
    done += piece.length;
  }
}
