import type * as Binding from "node-llama-cpp";
import type { PositionScore } from "./native-model.js";

/**
 * Scores positions through parts of the binding below its public functions, which sample every position once: the exact
 * log probability of a given token takes two samples. The binding's version is pinned.
 */
interface SequenceInternals {
  readonly _context: { readonly _ctx: NativeContext };
  readonly _tokenMeter: unknown;
  readonly _contextShift: unknown;
  /** Resolves with the results of `map`, which is called once for each token, with its index. */
  _decodeTokens<R>(
    tokens: readonly number[],
    logits: readonly true[],
    priority: number,
    meter: unknown,
    contextShift: unknown,
    map: (batchIndex: number, index: number) => Promise<R>,
  ): Promise<R[]>;
}

interface NativeContext {
  /** `list`: tokens and their probabilities in turn, most likely first. `ofToken`: probability of the token. */
  sampleToken(
    batchIndex: number,
    sampler: NativeSampler,
    withList: boolean,
    withOfToken: boolean,
  ): Promise<readonly [token: number, list: readonly number[] | undefined, ofToken: number | undefined]>;
}

interface NativeSampler {
  applyConfig(config: Readonly<Record<string, unknown>>): void;
}

interface ModelInternals {
  readonly _llama: { readonly _bindings: { readonly AddonSampler: new (model: unknown) => NativeSampler } };
  readonly _model: unknown;
}

/** Priority of the evaluation in a batch: the binding's default. */
const priority = 5;
/**
 * Added to the logit of a token so that it is among the most likely ones. The exponential function overflows single precision
 * above 87, so the bias grows in steps, with which the other tokens stay representable.
 */
const biasStep = 40;
/** A token that is less likely than e^-400 times the most likely one counts as "never". */
const biasMax = 400;

/** Log probabilities over the whole vocabulary, of all sequences of a context; one call at a time. */
export class PositionScorer {
  readonly #model: ModelInternals;
  /** Created once, because a sampler keeps a list of the whole vocabulary until it is collected. */
  #samplers: { readonly best: NativeSampler; readonly nearest: NativeSampler } | null = null;

  constructor(model: Binding.LlamaModel) {
    this.#model = model as unknown as ModelInternals;
  }

  /** Does what `NativeSequence.score` describes. */
  score(
    sequence: Binding.LlamaContextSequence,
    tokens: readonly number[],
    next: readonly number[],
    top: number,
  ): Promise<readonly PositionScore[]> {
    const internals = sequence as unknown as SequenceInternals;
    const { _context: context, _tokenMeter: meter, _contextShift: contextShift } = internals;
    const logits = tokens.map((): true => true);
    return internals._decodeTokens(tokens, logits, priority, meter, contextShift, (batchIndex, index) =>
      this.#scoreAt(context._ctx, batchIndex, next[index] ?? -1, top),
    );
  }

  /** The first sample gives the probability of the most likely token, the second that of other tokens relative to it. */
  async #scoreAt(context: NativeContext, at: number, next: number, top: number): Promise<PositionScore> {
    this.#samplers ??= this.#createSamplers();
    const { best: sampler, nearest } = this.#samplers;
    const [best, , probability] = await context.sampleToken(at, sampler, false, true);
    if (probability === undefined || !(probability > 0)) throw new Error("a position of the prompt has no logits");
    const ofBest = Math.log(probability);
    if (best === next && top <= 1) return { logprob: ofBest, top: top === 0 ? [] : [[best, ofBest]] };
    for (let bias = best === next ? 0 : biasStep; ; bias += biasStep) {
      nearest.applyConfig(nearestConfig(next, bias, top));
      const [, list = []] = await context.sampleToken(at, nearest, true, false);
      const logprobs = logprobsOf(list, { best, ofBest, next, bias });
      const logprob = logprobs.get(next);
      if (logprob === undefined && bias < biasMax) continue;
      const likeliest = [...logprobs].sort(([, a], [, b]) => b - a).slice(0, top);
      return { logprob: logprob ?? Number.NEGATIVE_INFINITY, top: likeliest };
    }
  }

  #createSamplers(): { readonly best: NativeSampler; readonly nearest: NativeSampler } {
    const { AddonSampler } = this.#model._llama._bindings;
    const best = new AddonSampler(this.#model._model);
    best.applyConfig({ temperature: 0 });
    return { best, nearest: new AddonSampler(this.#model._model) };
  }
}

/** Sampling of the most likely tokens with the logit of `next` raised by `bias`; at least 2, to include the most likely one. */
function nearestConfig(next: number, bias: number, top: number): Readonly<Record<string, unknown>> {
  const biased = bias === 0 ? {} : { tokenBiasKeys: Uint32Array.of(next), tokenBiasValues: Float32Array.of(bias) };
  return { temperature: 1, topK: Math.max(2, top + 1), topP: 1, minP: 0, seed: 0, ...biased };
}

/** Log probabilities of the tokens in a list, without those that round to 0. */
function logprobsOf(
  list: readonly number[],
  {
    best,
    ofBest,
    next,
    bias,
  }: { readonly best: number; readonly ofBest: number; readonly next: number; readonly bias: number },
): ReadonlyMap<number, number> {
  const relative = new Map<number, number>();
  for (let i = 0; i + 1 < list.length; i += 2) relative.set(list[i] ?? -1, list[i + 1] ?? 0);
  const unit = relative.get(best) ?? 0;
  const logprobs = new Map<number, number>();
  for (const [token, share] of relative) {
    if (share === 0 || unit === 0) continue;
    const logprob = ofBest + Math.log(share / unit) - (token === next ? bias : 0);
    logprobs.set(token, Math.min(logprob, ofBest));
  }
  return logprobs;
}
