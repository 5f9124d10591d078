import { randomInt } from "node:crypto";
import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildGenerate } from "../protocol/protocol.js";
import type { NativeGrammar, NativePenalties, NativeSampling } from "./native-model.js";

/** Changes whenever the same request would give other tokens than before: a part of the fingerprint. */
export const samplingVersion = 1;
/**
 * Tokens that one is chosen from when the caller gave no limit of his own. To sort a whole vocabulary takes as long as
 * a small model takes for a token, and what comes after these has no chance worth it.
 */
const candidatesMax = 200;
/** The native code takes this one for "choose a seed yourself". */
const reservedSeed = 0xffff_ffff;

export interface ChoiceSampling {
  readonly native: NativeSampling;
  /** Whether the most likely of the reported tokens follows, whatever the native code chose. */
  readonly mostLikely: boolean;
}

/** `produced`: the tokens of the answer so far; a function, as `banned`, because they are read again for every token. */
export function toChoiceSampling(
  request: ChildGenerate,
  model: { readonly vocabSize: number; readonly contextLength: number },
  answer: {
    readonly grammar: NativeGrammar | null;
    readonly banned: NativeSampling["banned"];
    readonly produced: () => readonly number[];
  },
): ChoiceSampling {
  const probabilities = request.logprobs !== undefined;
  // At temperature 0 the native code reports the probability of every token that there is, unless it has to choose
  // itself. A grammar must be told what follows, so it leaves no other way.
  const mostLikely = probabilities && request.temperature === 0 && answer.grammar === null;
  const native = {
    seed: request.seed === undefined ? randomInt(reservedSeed) : foldedSeed(request.seed),
    probabilities,
    logitBias: checkedBias(request.logitBias, model.vocabSize),
    banned: answer.banned,
    penalties: penaltiesOf(request, model.contextLength, answer.produced),
    grammar: answer.grammar,
  };
  const choosing = mostLikely
    ? { temperature: 1, topK: candidatesMax, topP: 1, minP: 0 }
    : {
        temperature: request.temperature,
        topK: topKOf(request),
        topP: request.topP,
        minP: request.minP ?? 0,
      };
  return { native: { ...native, ...choosing }, mostLikely };
}

/** A smaller `top_p` looks at the whole vocabulary, because cutting it first would shift what it keeps. */
function topKOf({ topK = 0, topP, logprobs }: ChildGenerate): number {
  if (topP < 1 && logprobs === undefined) return topK;
  return topK === 0 ? candidatesMax : logprobs === undefined ? topK : Math.min(topK, candidatesMax);
}

/** 32 bits of the 64; seeds below 2^32 - 1 stay themselves. */
function foldedSeed(seed: bigint): number {
  const folded = Number(BigInt.asUintN(32, seed) ^ BigInt.asUintN(32, seed >> 32n));
  return folded === reservedSeed ? reservedSeed - 1 : folded;
}

function checkedBias(bias: ChildGenerate["logitBias"], vocabSize: number): ReadonlyMap<number, number> {
  for (const token of bias?.keys() ?? []) {
    if (token < vocabSize) continue;
    throw new EngineError(
      "bad_input",
      `The keys of 'logit_bias' must be token ids of this model, from 0 to ${vocabSize - 1}, but one is ${token}.`,
      { param: "logit_bias" },
    );
  }
  return bias ?? new Map();
}

function penaltiesOf(
  { repetitionPenalty = 1, frequencyPenalty, presencePenalty }: ChildGenerate,
  tokensMax: number,
  tokens: () => readonly number[],
): NativePenalties | null {
  if (repetitionPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0) return null;
  return {
    repetition: repetitionPenalty,
    frequency: frequencyPenalty,
    presence: presencePenalty,
    tokensMax,
    tokens,
  };
}
