import type { Message } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Clock } from "../../domain/call/ports.js";
import { type EmitEvent, EngineError, type GenEvent, type GenerateInput } from "../../domain/engine/engine.js";
import { contextOverflow } from "../../domain/engine/engine-error.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { Turns } from "../../lib/clock.js";
import type { Placed } from "../../lib/collections.js";
import { type Choice, countTokens, tokensBegunIn } from "./choices.js";
import type { ScriptedFailureCode } from "./scripted-options.js";

export interface GenerationSpec {
  readonly pace: Pace;
  readonly promptTokens: number;
  readonly contextLength: number;
  readonly choices: readonly Choice[];
  readonly firstTokenDelayMs: number;
  readonly tokenDelayMs: number;
  /** Maximum tokens of one choice that one step produces. */
  readonly tokensPerStep: number;
  /** Failure or hang during the answer; null: none. */
  readonly interruption: Interruption | null;
  /** Called with the number of tokens of each step. */
  readonly onProduced: (tokens: number) => void;
}

/** A failure or a hang after a number of tokens, counted over all choices. */
export interface Interruption {
  readonly afterTokens: number;
  /** Error of the failure; null: the call hangs until it is stopped. */
  readonly code: ScriptedFailureCode | null;
}

type Usage = NonNullable<EngineError["usage"]>;

/**
 * One call: its choices produce tokens in turn until all have ended, the script interrupts them, or the call is stopped.
 * A step without a wait creates no promise.
 */
export class Generation {
  readonly #spec: GenerationSpec;
  /** Choices that have not ended; `#turn`: index of the choice that produces tokens next. */
  #open: readonly Choice[];
  #turn = 0;
  #delayMs: number;
  #produced = 0;

  constructor(spec: GenerationSpec) {
    this.#spec = spec;
    this.#open = spec.choices;
    this.#delayMs = spec.firstTokenDelayMs;
  }

  /** Emits all events; `usage` is the last. Rejects with EngineError. Must be called once. */
  async run(emit: EmitEvent): Promise<void> {
    let events: readonly GenEvent[] = [{ type: "accepted", promptTokens: this.#spec.promptTokens, cachedTokens: 0 }];
    for (;;) {
      for (const event of events) {
        this.#throwIfStopped();
        const taken = emit(event);
        if (taken !== undefined) await taken;
      }
      if (this.#open.length === 0) return;
      this.#throwIfStopped();
      const wait = this.#beforeStep();
      if (wait !== undefined) await wait;
      this.#throwIfStopped();
      if (this.#interruptionIsDue) await this.#interrupt();
      events = this.#step();
    }
  }

  /** Waits before each round of all choices that have not ended, but not after the last token before an interruption. */
  #beforeStep(): Promise<void> | undefined {
    if (this.#turn > 0 || (this.#interruptionIsDue && this.#produced > 0)) return undefined;
    const wait = this.#spec.pace.beforeTokens(this.#spec.tokensPerStep * this.#open.length, this.#delayMs);
    this.#delayMs = this.#spec.tokenDelayMs;
    return wait;
  }

  /** Produces tokens of the next choice, and `usage` after the end of the last one. */
  #step(): readonly GenEvent[] {
    const choice = this.#open[this.#turn];
    if (choice === undefined) return [];
    const before = choice.produced;
    const events = choice.take(Math.min(this.#spec.tokensPerStep, this.#untilInterruption));
    this.#produced += choice.produced - before;
    this.#spec.onProduced(choice.produced - before);
    this.#turn += 1;
    if (choice.left === 0 && !this.#interruptionIsDue) {
      const { index, reason, produced: outTokens, stopSequence } = choice;
      const finish = { type: "finish", choice: index, reason, outTokens } as const;
      events.push(stopSequence === null ? finish : { ...finish, stopSequence });
      this.#open = this.#open.filter((open) => open !== choice);
      this.#turn -= 1;
    }
    if (this.#open.length === 0) {
      const { promptTokens } = this.#spec;
      events.push({ type: "usage", promptTokens, outTokens: this.#produced, cachedTokens: 0, reasoningTokens: 0 });
    }
    if (this.#turn >= this.#open.length) this.#turn = 0;
    return events;
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
    await this.#spec.pace.wait(Number.POSITIVE_INFINITY);
    this.#throwIfStopped();
  }

  #throwIfStopped(): void {
    if (this.#spec.pace.stopped) throw this.#spec.pace.stopError(this.#usage());
  }

  #usage(): Usage {
    return { promptTokens: this.#spec.promptTokens, outTokens: this.#produced, cachedTokens: 0 };
  }
}

const failureCodes = {
  internal_error: "internal",
  upstream_error: "upstream_error",
  server_is_overloaded: "overloaded",
  upstream_timeout: "timeout",
} as const satisfies Partial<Record<ScriptedFailureCode, EngineError["code"]>>;

/** The EngineError that clients see as `code`. `usage`: the tokens so far. */
export function failureError(code: ScriptedFailureCode, contextLength: number, usage: Usage): EngineError {
  if (code === "context_length_exceeded") {
    return contextOverflow({ contextLength, promptTokens: contextLength + 1, maxTokens: null, usage });
  }
  return new EngineError(failureCodes[code], "scripted failure", { retryable: true, usage });
}

/** Maximum tokens that a call without waits produces before the event loop runs other work. */
const tokensPerTurn = 64;

/** Resolves when the event loop has run all other work that was due. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * The waits of one call. A wait ends immediately when the call is stopped; the caller checks `stopped` after it. A call that
 * never waits has no timer and no listener on its signal.
 */
export class Pace implements Placed {
  place = 0;
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

  /** The error of a stopped call. `usage`: the tokens so far. */
  stopError(usage: Usage): EngineError {
    const cause = this.#signal.reason;
    if (this.#signal.aborted) return new EngineError("aborted", "the call was aborted", { usage, cause });
    return new EngineError("engine_restarted", "the model was unloaded", { retryable: true, usage });
  }

  /** Ends the current wait and all later ones. */
  stop(): void {
    this.#stopped = true;
    this.#wake?.();
  }

  /**
   * Waits `ms`, or with 0 for one turn of the event loop after every `tokensPerTurn` tokens, so that no call starves the
   * others. Undefined: no wait is needed.
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

/** Characters whose tokens are counted in one step, which takes up to about a millisecond. */
const charsPerStep = 131_072;

/**
 * Number of tokens in all text parts of a prompt; roles, names and tools do not count. Returns a promise for a long prompt,
 * which is counted in several turns of the event loop.
 */
export function promptTokensOf(input: GenerateInput): number | Promise<number> {
  if (!("messages" in input)) {
    const { prompt } = input;
    if (typeof prompt !== "string") return prompt.length;
    return prompt.length > charsPerStep ? countInTurns([prompt]) : countTokens(prompt);
  }
  let chars = 0;
  for (const { content } of input.messages) {
    for (const { part } of content) if (part.case === "text") chars += part.value.length;
  }
  if (chars > charsPerStep) return countInTurns(textsOf(input.messages));
  let tokens = 0;
  for (const { content } of input.messages) {
    for (const { part } of content) if (part.case === "text") tokens += countTokens(part.value);
  }
  return tokens;
}

function textsOf(messages: readonly Message[]): readonly string[] {
  return messages.flatMap(({ content }) => content.flatMap(({ part }) => (part.case === "text" ? [part.value] : [])));
}

async function countInTurns(texts: readonly string[]): Promise<number> {
  const turns = new Turns();
  let tokens = 0;
  for (const text of texts) {
    let ofText = 0;
    for (let from = 0; from < text.length; from += charsPerStep) {
      ofText += tokensBegunIn(text, from, Math.min(text.length, from + charsPerStep));
      await turns.next();
    }
    tokens += ofText === 0 && text.length > 0 ? 1 : ofText;
  }
  return tokens;
}
