import { EngineError, type GenEvent } from "../../../domain/engine/engine.js";
import { contextOverflow } from "../../../domain/engine/engine-error.js";
import type { OutputPlan } from "../chat/output-plan.js";
import type { ChildGenerate, ProducedTokens } from "../protocol/protocol.js";
import { abortedError } from "../protocol/protocol.js";
import { ChoiceOutput } from "./choice-output.js";
import type { AnswerBans, GrammarBans } from "./grammar-bans.js";
import type { DecodedToken, NativeDecoder, NativeGrammar, NativeModel } from "./native-model.js";
import { type PrefillPace, prefill } from "./prefill.js";
import type { Prompt } from "./prompt.js";
import { type ChoiceSampling, toChoiceSampling } from "./sampling.js";
import type { Slot } from "./slots.js";
import type { StepBatcher } from "./step-batcher.js";
import type { TokenSpelling } from "./token-spelling.js";

export interface GenerationDeps {
  readonly model: NativeModel;
  readonly contextLength: number;
  readonly turns: StepBatcher;
  readonly pace: PrefillPace;
  readonly spelling: TokenSpelling;
  readonly bans: GrammarBans;
}

export interface GenerationTask {
  readonly request: ChildGenerate;
  readonly prompt: Prompt;
  readonly plan: OutputPlan;
  readonly grammar: NativeGrammar | null;
}

/** One answer, checked in the constructor and not begun before `run`. */
export class Generation {
  readonly #deps: GenerationDeps;
  readonly #request: ChildGenerate;
  readonly #prompt: readonly number[];
  readonly #output: ChoiceOutput;
  readonly #sampling: ChoiceSampling;
  readonly #bans: AnswerBans | null;
  readonly #tokensMax: number;
  #cachedTokens = 0;

  /** Throws EngineError: `context_overflow`, `bad_input`. */
  constructor(deps: GenerationDeps, { request, prompt, plan, grammar }: GenerationTask) {
    const left = deps.contextLength - prompt.tokens.length;
    if (left < 0) throw overflowError(deps.contextLength, request, prompt);
    this.#deps = deps;
    this.#request = request;
    this.#prompt = prompt.tokens;
    this.#tokensMax = Math.min(request.maxTokens ?? left, left);
    this.#output = new ChoiceOutput({
      reader: plan.newReader(),
      stop: request.stop,
      logprobs: request.logprobs ?? null,
      spelling: deps.spelling,
      detokenize: (tokens, before) => deps.model.detokenize(tokens, [...prompt.tokens.slice(-3), ...before]),
    });
    const bans = grammar === null ? null : deps.bans.begin();
    this.#bans = bans;
    this.#sampling = toChoiceSampling(
      request,
      { vocabSize: deps.model.vocabulary.size, contextLength: deps.contextLength },
      { grammar, banned: bans === null ? null : () => bans.tokens, produced: () => this.#output.tokens },
    );
  }

  get produced(): ProducedTokens {
    return {
      promptTokens: this.#prompt.length,
      outTokens: this.#output.tokens.length,
      cachedTokens: this.#cachedTokens,
    };
  }

  /** Runs on a slot that is this call's alone. Throws EngineError; anything else leaves the slot in doubt. */
  async run(slot: Slot, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<void> {
    this.#throwIfAborted(signal);
    this.#cachedTokens = this.#tokensMax === 0 ? 0 : await slot.prepare(this.#prompt, this.#request.cacheKey);
    emit({ type: "accepted", promptTokens: this.#prompt.length, cachedTokens: this.#cachedTokens });
    this.#echo(emit);
    const cut = this.#tokensMax === 0 || (await this.#answer(slot, emit, signal));
    const { events, reason, fault } = this.#output.end(cut);
    for (const event of events) emit(event);
    if (fault !== null) {
      const message = `The model's answer does not match its schema: ${fault}`;
      throw new EngineError("internal", message, { retryable: true, usage: this.produced });
    }
    emit({ type: "finish", choice: 0, reason, outTokens: this.#output.tokens.length });
    emit({ type: "usage", ...this.produced, reasoningTokens: this.#output.reasoningTokens });
  }

  #echo(emit: (event: GenEvent) => void): void {
    const { echo, input } = this.#request;
    if (echo !== true || input.type === "chat") return;
    const text = input.type === "text" ? input.text : this.#deps.model.detokenize(input.tokens);
    if (text !== "") emit({ type: "text", choice: 0, text, outTokens: 0 });
  }

  /** Returns whether the answer was cut: there was no room for more. */
  async #answer({ sequence }: Slot, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<boolean> {
    this.#throwIfAborted(signal);
    const unknown = this.#prompt.slice(this.#cachedTokens);
    const last = await prefill(sequence, unknown, this.#deps, () => this.#throwIfAborted(signal));
    this.#throwIfAborted(signal);
    const decoder = sequence.decode(last, this.#sampling.native);
    try {
      return await this.#decode(decoder, { isLong: last.length > 1 }, emit, signal);
    } finally {
      await decoder.close();
    }
  }

  async #decode(
    decoder: NativeDecoder,
    firstStep: { readonly isLong: boolean },
    emit: (event: GenEvent) => void,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { turns, model } = this.#deps;
    let instead: number | undefined;
    const next = async (): Promise<DecodedToken> => {
      // A call may have waited for its turn while others evaluated their prompts.
      this.#throwIfAborted(signal);
      return decoder.next(instead);
    };
    while (this.#output.tokens.length < this.#tokensMax) {
      const decoded = await turns.step(next, this.#output.tokens.length === 0 ? firstStep : {});
      if (this.#sampling.mostLikely) instead = decoded.probabilities?.keys().next().value;
      const token = instead ?? decoded.token;
      if (model.isEnd(token)) return false;
      this.#bans?.push(token);
      for (const event of this.#output.push({ ...decoded, token })) emit(event);
      this.#throwIfAborted(signal);
      if (this.#output.isOver) return false;
    }
    return true;
  }

  #throwIfAborted(signal: AbortSignal): void {
    if (signal.aborted) throw abortedError(signal, this.produced);
  }
}

function overflowError(contextLength: number, { maxTokens }: ChildGenerate, { tokens, param }: Prompt): EngineError {
  return contextOverflow({ contextLength, promptTokens: tokens.length, maxTokens, param });
}
