import type { EngineError, GenEvent } from "../../domain/inference/engine.js";
import type { Choice } from "./choice.js";
import { failureError, type ProducedUsage } from "./failure.js";
import type { Pace } from "./pace.js";
import type { ScriptedFailureCode } from "./scripted-options.js";

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

/** One call: its choices take turns until all have ended, the script interrupts them, or the call is stopped. */
export class Generation {
  readonly #spec: GenerationSpec;
  readonly #deps: GenerationDeps;
  #open: readonly Choice[];
  #produced = 0;

  constructor(spec: GenerationSpec, deps: GenerationDeps) {
    this.#spec = spec;
    this.#deps = deps;
    this.#open = spec.choices;
  }

  /** Ends with `usage`; throws EngineError. One generator and no promise that is not needed: this is run per token. */
  async *events(): AsyncGenerator<GenEvent, void, undefined> {
    try {
      this.#throwIfStopped();
      yield { type: "accepted", promptTokens: this.#spec.promptTokens, cachedTokens: 0 };
      let delayMs = this.#spec.firstTokenDelayMs;
      while (this.#open.length > 0) {
        const wait = this.#deps.pace.beforeTokens(this.#spec.tokensPerStep * this.#open.length, delayMs);
        if (wait !== undefined) await wait;
        delayMs = this.#spec.tokenDelayMs;
        this.#throwIfStopped();
        for (const event of this.#round()) {
          yield event;
          this.#throwIfStopped();
        }
        if (this.#interruptionIsDue) await this.#interrupt();
      }
      yield { type: "usage", reasoningTokens: 0, ...this.#usage() };
    } finally {
      this.#deps.onEnd();
    }
  }

  /** One step of every open choice; ends early when the interruption is due. */
  *#round(): Generator<GenEvent, void, undefined> {
    for (const choice of this.#open) {
      if (this.#interruptionIsDue) return;
      const before = choice.produced;
      const events = choice.take(Math.min(this.#spec.tokensPerStep, this.#untilInterruption));
      this.#produced += choice.produced - before;
      this.#deps.onProduced(choice.produced - before);
      yield* events;
      if (choice.left > 0) continue;
      if (this.#interruptionIsDue) return;
      this.#open = this.#open.filter((open) => open !== choice);
      yield { type: "finish", choice: choice.index, reason: choice.reason, outTokens: choice.produced };
    }
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
