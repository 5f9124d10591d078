import { randomInt } from "node:crypto";
import { EngineError, type GenEvent } from "../../../domain/engine/engine.js";
import { contextOverflow } from "../../../domain/engine/engine-error.js";
import type { OutputPlan } from "../chat/output-plan.js";
import { abortedError, type ChildGenerate, type ProducedTokens } from "../protocol/protocol.js";
import { ChoiceOutput, tokenLogprob } from "./choice-output.js";
import type { NativeModel } from "./native.js";
import type { DecodedToken, NativeDecoder, NativeGrammar, NativeSampling } from "./native-model.js";
import type { Prompt } from "./prompt.js";
import { echoWithLogprobs } from "./prompt-logprobs.js";
import type { Slot } from "./slots.js";
import { type PrefillPace, prefill, type StepBatcher } from "./steps.js";
import type { AnswerBans, TokenSpelling } from "./token-spelling.js";

export interface GenerationDeps {
  readonly model: NativeModel;
  readonly contextLength: number;
  readonly batcher: StepBatcher;
  readonly pace: PrefillPace;
  /** Pace of evaluating prompts whose log probabilities are requested. */
  readonly scoringPace: PrefillPace;
  readonly spelling: TokenSpelling;
  readonly newBans: () => AnswerBans;
  /** Tokens that end an answer. */
  readonly endTokens: () => ReadonlySet<number>;
}

export interface GenerationTask {
  readonly request: ChildGenerate;
  readonly prompt: Prompt;
  readonly plan: OutputPlan;
  readonly grammar: NativeGrammar | null;
}

/** One answer. The constructor checks the request; `run` starts it. */
export class Generation {
  /** Whether the echoed prompt has log probabilities, for which all its tokens are evaluated. */
  readonly scoresPrompt: boolean;
  readonly #deps: GenerationDeps;
  readonly #request: ChildGenerate;
  readonly #prompt: readonly number[];
  readonly #output: ChoiceOutput;
  readonly #sampling: ChoiceSampling;
  readonly #bans: AnswerBans | null;
  readonly #tokensMax: number;
  #endToken: DecodedToken | null = null;
  #cachedTokens = 0;

  /** Throws EngineError: `context_overflow`, `bad_input`, `unsupported`. */
  constructor(deps: GenerationDeps, { request, prompt, plan, grammar }: GenerationTask) {
    const { model, contextLength, spelling } = deps;
    const { tokens, param } = prompt;
    const left = contextLength - tokens.length;
    if (left < 0) {
      throw contextOverflow({ contextLength, promptTokens: tokens.length, maxTokens: request.maxTokens, param });
    }
    this.#deps = deps;
    this.#request = request;
    this.#prompt = tokens;
    this.#tokensMax = Math.min(request.maxTokens ?? left, left);
    this.scoresPrompt = request.echo === true && request.logprobs !== undefined && request.input.type !== "chat";
    this.#output = new ChoiceOutput({
      reader: plan.newReader(),
      stop: request.stop,
      logprobs: request.logprobs ?? null,
      spelling,
      detokenize: (ofAnswer, before) => model.detokenize(ofAnswer, [...tokens.slice(-3), ...before]),
    });
    if (grammar !== null) refuseLength(request);
    const bans = grammar === null ? null : deps.newBans();
    this.#bans = bans;
    this.#sampling = toChoiceSampling(
      request,
      { vocabSize: model.vocabulary.size, contextLength },
      {
        grammar,
        banned: bans === null ? this.#endBans(deps.endTokens) : () => bans.tokens,
        produced: () => this.#output.tokens,
      },
    );
  }

  /** Keeps the model from ending the answer too early; null: it may end at any time. */
  #endBans(endTokens: () => ReadonlySet<number>): (() => ReadonlySet<number>) | null {
    const { minTokens = 0, ignoreEos = false } = this.#request;
    if (minTokens === 0 && !ignoreEos) return null;
    const ends = endTokens();
    return () => (ignoreEos || this.#output.tokens.length < minTokens ? ends : noTokens);
  }

  get produced(): ProducedTokens {
    return {
      promptTokens: this.#prompt.length,
      outTokens: this.#output.tokens.length,
      cachedTokens: this.#cachedTokens,
    };
  }

  /** Runs on a slot that no other call uses. Throws EngineError; after any other error the slot must be cleared. */
  async run(slot: Slot, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<void> {
    this.#throwIfAborted(signal);
    const isEvaluated = this.scoresPrompt || this.#tokensMax > 0;
    const reusable = this.scoresPrompt ? [] : this.#prompt;
    this.#cachedTokens = isEvaluated ? await slot.prepare(reusable, this.#request.cacheKey) : 0;
    emit({ type: "accepted", promptTokens: this.#prompt.length, cachedTokens: this.#cachedTokens });
    await this.#echo(slot, emit, signal);
    const cut = this.#tokensMax === 0 || (await this.#answer(slot, emit, signal));
    const { events, reason, stopSequence, fault } = this.#output.end(cut);
    for (const event of events) emit(event);
    this.#emitEndToken(emit);
    if (fault !== null) {
      const message = `The model's answer does not match its schema: ${fault}`;
      throw new EngineError("internal", message, { retryable: true, usage: this.produced });
    }
    const finish = { type: "finish", choice: 0, reason, outTokens: this.#output.tokens.length } as const;
    emit(stopSequence === null ? finish : { ...finish, stopSequence });
    emit({ type: "usage", ...this.produced, reasoningTokens: this.#output.reasoningTokens });
  }

  async #echo({ sequence }: Slot, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<void> {
    const { echo, input, logprobs: alternatives } = this.#request;
    if (echo !== true || input.type === "chat") return;
    const text = input.type === "text" ? input.text : this.#deps.model.detokenize(input.tokens);
    if (alternatives !== undefined) {
      const prompt = { tokens: this.#prompt, text, alternatives };
      await echoWithLogprobs(sequence, prompt, this.#deps, () => this.#throwIfAborted(signal), emit);
    } else if (text !== "") {
      emit({ type: "text", choice: 0, text, outTokens: 0 });
    }
  }

  /**
   * Emits the log probability of the token that ended the answer, if the prompt has log probabilities: clients expect at
   * least one output token after the positions of the prompt.
   */
  #emitEndToken(emit: (event: GenEvent) => void): void {
    const { token, probabilities } = this.#endToken ?? {};
    if (token === undefined || !probabilities || !this.scoresPrompt) return;
    const logprob = tokenLogprob(token, probabilities, this.#request.logprobs ?? 0, this.#deps.spelling);
    const outTokens = this.#output.tokens.length;
    emit({ type: "text", choice: 0, text: "", outTokens, logprobs: [{ ...logprob, bytes: [] }] });
  }

  /** Returns whether the answer was cut because it reached its maximum length. */
  async #answer({ sequence }: Slot, emit: (event: GenEvent) => void, signal: AbortSignal): Promise<boolean> {
    this.#throwIfAborted(signal);
    const unknown = this.#prompt.slice(sequence.tokens.length);
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
    const { batcher, model } = this.#deps;
    let instead: number | undefined;
    const next = async (): Promise<DecodedToken> => {
      // The call may have waited while others evaluated their prompts.
      this.#throwIfAborted(signal);
      return decoder.next(instead);
    };
    while (this.#output.tokens.length < this.#tokensMax) {
      const decoded = await batcher.step(next, this.#output.tokens.length === 0 ? firstStep : {});
      if (this.#sampling.mostLikely) instead = decoded.probabilities?.keys().next().value;
      const token = instead ?? decoded.token;
      if (model.isEnd(token)) {
        this.#endToken = { ...decoded, token };
        return false;
      }
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

const noTokens: ReadonlySet<number> = new Set();

/** Rejects `min_tokens` and `ignore_eos`: a grammar decides where an answer ends, and no token could follow. */
function refuseLength({ minTokens = 0, ignoreEos = false }: ChildGenerate): void {
  if (minTokens === 0 && !ignoreEos) return;
  const param = ignoreEos ? "ignore_eos" : "min_tokens";
  throw new EngineError("unsupported", `'${param}' must not be given for an answer of a required form.`, { param });
}

/** Part of the fingerprint; must be raised when a change of the code gives other tokens for the same request. */
export const samplingVersion = 1;
/**
 * Candidates of each token if the request sets no limit. Sorting a whole vocabulary takes as long as a small model needs
 * for a token, and the rest has next to no probability.
 */
const candidatesMax = 200;
/** The native code replaces this seed by a random one. */
const reservedSeed = 0xffff_ffff;

interface ChoiceSampling {
  readonly native: NativeSampling;
  /** Whether the answer continues with the most likely reported token instead of the token that the native code chose. */
  readonly mostLikely: boolean;
}

/** `produced`: returns the tokens of the answer so far; both it and `banned` are called again for every token. */
export function toChoiceSampling(
  request: ChildGenerate,
  model: { readonly vocabSize: number; readonly contextLength: number },
  answer: Pick<NativeSampling, "grammar" | "banned"> & { readonly produced: () => readonly number[] },
): ChoiceSampling {
  const { temperature, topP, minP = 0, seed, logitBias = new Map<number, number>(), repetitionPenalty = 1 } = request;
  const { frequencyPenalty, presencePenalty } = request;
  const probabilities = request.logprobs !== undefined;
  // At temperature 0 the native code reports the probabilities of the whole vocabulary. So it samples from the candidates
  // and this code chooses; not with a grammar, whose state follows the token that the native code chose.
  const mostLikely = probabilities && temperature === 0 && answer.grammar === null;
  const hasPenalty = repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
  checkBias(logitBias, model.vocabSize);
  const native = {
    seed: seed === undefined ? randomInt(reservedSeed) : foldedSeed(seed),
    probabilities,
    logitBias,
    banned: answer.banned,
    penalties: hasPenalty
      ? {
          repetition: repetitionPenalty,
          frequency: frequencyPenalty,
          presence: presencePenalty,
          tokensMax: model.contextLength,
          tokens: answer.produced,
        }
      : null,
    grammar: answer.grammar,
  };
  const choosing = mostLikely
    ? { temperature: 1, topK: candidatesMax, topP: 1, minP: 0 }
    : { temperature, topK: topKOf(request), topP, minP };
  return { native: { ...native, ...choosing }, mostLikely };
}

/** A `top_p` below 1 considers the whole vocabulary, because a limit before it would change its result. */
function topKOf({ topK = 0, topP, logprobs }: ChildGenerate): number {
  if (topP < 1 && logprobs === undefined) return topK;
  return topK === 0 ? candidatesMax : logprobs === undefined ? topK : Math.min(topK, candidatesMax);
}

/** Reduces a 64-bit seed to 32 bits; seeds from 0 to 2^32 - 2 stay the same. */
function foldedSeed(seed: bigint): number {
  const folded = Number(BigInt.asUintN(32, seed) ^ BigInt.asUintN(32, seed >> 32n));
  return folded === reservedSeed ? reservedSeed - 1 : folded;
}

function checkBias(bias: ReadonlyMap<number, number>, vocabSize: number): void {
  for (const token of bias.keys()) {
    if (token < vocabSize) continue;
    throw new EngineError(
      "bad_input",
      `The keys of 'logit_bias' must be token ids of this model, from 0 to ${vocabSize - 1}, but one is ${token}.`,
      { param: "logit_bias" },
    );
  }
}
