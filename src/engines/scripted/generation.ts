import type { Clock } from "../../domain/call/ports.js";
import type { EngineError, GenEvent } from "../../domain/engine/engine.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { Choice } from "./choices.js";
import { failureError, type ProducedUsage, type ScriptedFailureCode } from "./scripted-options.js";

export interface GenerationSpec {
  readonly promptTokens: number;
  readonly contextLength: number;
  readonly choices: readonly Choice[];
  readonly firstTokenDelayMs: number;
  readonly tokenDelayMs: number;
  /** Tokens of one choice that one step may produce. */
  readonly tokensPerStep: number;
  /** What happens after so many tokens of all choices together; null: nothing, the answer is complete. */
  readonly interruption: Interruption | null;
}

export interface Interruption {
  readonly afterTokens: number;
  /** Null: it hangs until it is stopped. */
  readonly code: ScriptedFailureCode | null;
}

export interface GenerationDeps {
  readonly pace: Pace;
  /** Told once, when the iteration is over. */
  readonly onEnd: () => void;
  /** Told of the tokens of every step. */
  readonly onProduced: (tokens: number) => void;
  /** Why the call was stopped, as the error of that. */
  readonly stopError: (usage: ProducedUsage) => EngineError;
}

/**
 * One call: its choices take turns until all have ended, the script interrupts them, or the call is stopped. Ends with
 * `usage`; throws EngineError.
 *
 * An iterator by hand and no generator: this is run per token, and a step that has nothing to wait for makes one promise.
 */
export class Generation implements AsyncIterableIterator<GenEvent, void, undefined> {
  readonly #spec: GenerationSpec;
  readonly #deps: GenerationDeps;
  /** Events that were made, and how many of them were taken. */
  #made: readonly GenEvent[];
  #taken = 0;
  /** Choices that have not ended, and whose turn it is among them. */
  #open: readonly Choice[];
  #turn = 0;
  #delayMs: number;
  #produced = 0;
  #over = false;

  constructor(spec: GenerationSpec, deps: GenerationDeps) {
    this.#spec = spec;
    this.#deps = deps;
    this.#made = [{ type: "accepted", promptTokens: spec.promptTokens, cachedTokens: 0 }];
    this.#open = spec.choices;
    this.#delayMs = spec.firstTokenDelayMs;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<GenEvent, void>> {
    try {
      while (!this.#isComplete) {
        this.#throwIfStopped();
        const value = this.#made[this.#taken++];
        if (value !== undefined) return Promise.resolve({ done: false, value });
        const wait = this.#beforeStep();
        if (wait !== undefined || this.#interruptionIsDue) return this.#nextAfter(wait);
        this.#step();
      }
      return Promise.resolve(this.#end());
    } catch (thrown) {
      this.#end();
      return Promise.reject(thrown);
    }
  }

  /** The next event when something has to be waited for. */
  async #nextAfter(wait: Promise<void> | undefined): Promise<IteratorResult<GenEvent, void>> {
    try {
      await wait;
      this.#throwIfStopped();
      if (this.#interruptionIsDue) await this.#interrupt();
      this.#step();
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
    return this.next();
  }

  async return(): Promise<IteratorResult<GenEvent, void>> {
    return this.#end();
  }

  #end(): IteratorResult<GenEvent, void> {
    if (!this.#over) this.#deps.onEnd();
    this.#over = true;
    return { done: true, value: undefined };
  }

  get #isComplete(): boolean {
    return this.#over || (this.#open.length === 0 && this.#taken >= this.#made.length);
  }

  /** A round of all open choices begins with a wait, but nothing waits after the last token before an interruption. */
  #beforeStep(): Promise<void> | undefined {
    if (this.#turn > 0 || (this.#interruptionIsDue && this.#produced > 0)) return undefined;
    const wait = this.#deps.pace.beforeTokens(this.#spec.tokensPerStep * this.#open.length, this.#delayMs);
    this.#delayMs = this.#spec.tokenDelayMs;
    return wait;
  }

  /** Makes what the choice whose turn it is says next, and `usage` after the end of the last. */
  #step(): void {
    const choice = this.#open[this.#turn];
    if (choice === undefined) return;
    const before = choice.produced;
    const made = choice.take(Math.min(this.#spec.tokensPerStep, this.#untilInterruption));
    this.#produced += choice.produced - before;
    this.#deps.onProduced(choice.produced - before);
    this.#turn += 1;
    if (choice.left === 0 && !this.#interruptionIsDue) {
      made.push({ type: "finish", choice: choice.index, reason: choice.reason, outTokens: choice.produced });
      this.#open = this.#open.filter((open) => open !== choice);
      this.#turn -= 1;
    }
    if (this.#open.length === 0) {
      const { promptTokens } = this.#spec;
      made.push({ type: "usage", promptTokens, outTokens: this.#produced, cachedTokens: 0, reasoningTokens: 0 });
    }
    if (this.#turn >= this.#open.length) this.#turn = 0;
    this.#made = made;
    this.#taken = 0;
  }

  get #untilInterruption(): number {
    const { interruption } = this.#spec;
    return interruption === null ? Number.POSITIVE_INFINITY : interruption.afterTokens - this.#produced;
  }

  get #interruptionIsDue(): boolean {
    return this.#untilInterruption <= 0;
  }

  async #interrupt(): Promise<void> {
    const code = this.#spec.interruption?.code ?? null;
    if (code !== null) throw failureError(code, this.#spec.contextLength, this.#usage());
    await this.#deps.pace.wait(Number.POSITIVE_INFINITY);
    this.#throwIfStopped();
  }

  #throwIfStopped(): void {
    if (this.#deps.pace.stopped) throw this.#deps.stopError(this.#usage());
  }

  #usage(): ProducedUsage {
    return { promptTokens: this.#spec.promptTokens, outTokens: this.#produced, cachedTokens: 0 };
  }
}

/** Tokens that a call may produce without a pause before the event loop gets its turn. */
const tokensPerTurn = 64;

/** Resolves when the event loop has served whatever else was due. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * The rhythm of one call. Every wait ends at once when the call is stopped; the caller looks at `stopped` after each.
 * A listener on the signal and a timer for as long as there is something to wait for, and none for a call that never waits.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #signal: AbortFlag;
  #stopped = false;
  #wake: (() => void) | null = null;
  #sinceTurn = 0;
  readonly #onAbort = (): void => this.#wake?.();

  constructor(clock: Clock, signal: AbortFlag) {
    this.#clock = clock;
    this.#signal = signal;
  }

  get stopped(): boolean {
    return this.#stopped || this.#signal.aborted;
  }

  /** Ends the running wait and all later ones. */
  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  /**
   * Waits `ms`; 0 gives the event loop its turn after every so many tokens, so that no call starves the others.
   * Undefined: there is nothing to wait for.
   */
  beforeTokens(count: number, ms: number): Promise<void> | undefined {
    if (ms > 0) return this.wait(ms);
    const turnOver = this.#sinceTurn >= tokensPerTurn;
    this.#sinceTurn = turnOver ? count : this.#sinceTurn + count;
    return turnOver ? nextTurn() : undefined;
  }

  /** Waits `ms`; Infinity: until stopped. */
  async wait(ms: number): Promise<void> {
    if (this.stopped || ms <= 0) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === Number.POSITIVE_INFINITY ? null : this.#clock.after(ms, () => this.#wake?.());
      this.#wake = () => {
        cancel?.();
        this.#signal.removeEventListener("abort", this.#onAbort);
        this.#wake = null;
        resolve();
      };
      this.#signal.addEventListener("abort", this.#onAbort);
    });
  }
}
