import { ServiceError } from "../call/service-error.js";
import type { Capabilities, GenerateInput } from "../engine/engine.js";
import type { GenerateBase } from "../engine/generate-base.js";

/** What chat and text completions have in common, as both messages spell it. */
export interface SamplingParams {
  readonly model: string;
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly n?: number | undefined;
  readonly stop: readonly string[];
  readonly seed?: bigint | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly logitBias: { readonly [token: string]: number };
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
}

/** For an object under construction: what is not asked for is left out, and spreads would cost every request. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * What an engine is asked for an input, the sampling's defaults filled in. `logprobs` undefined: none are asked for.
 * Refuses what the model cannot do.
 */
export function toGenerate(
  input: GenerateInput,
  params: SamplingParams,
  asked: { readonly maxTokens: number | undefined; readonly logprobs: number | undefined },
  caps: Capabilities,
): Mutable<GenerateBase> {
  const logitBias = Object.entries(params.logitBias).map(([id, bias]) => [Number(id), bias] as const);
  refuseUnlessAble(caps.logitBias || logitBias.length === 0, "logit_bias", params.model);
  refuseUnlessAble(caps.penalties || !params.frequencyPenalty, "frequency_penalty", params.model);
  refuseUnlessAble(caps.penalties || !params.presencePenalty, "presence_penalty", params.model);
  refuseUnlessAble(caps.logprobs > 0 || asked.logprobs === undefined, "logprobs", params.model);
  const request: Mutable<GenerateBase> = {
    input,
    n: params.n ?? 1,
    maxTokens: asked.maxTokens === undefined ? null : Math.min(asked.maxTokens, caps.maxOutput),
    stop: params.stop.filter((text) => text !== ""),
    temperature: params.temperature ?? 1,
    topP: params.topP ?? 1,
    frequencyPenalty: params.frequencyPenalty ?? 0,
    presencePenalty: params.presencePenalty ?? 0,
    requestId: "",
    deadlineAtMs: 0,
    queueMs: 0,
    cacheKey: "",
    deltas: "joined",
  };
  if (params.topK !== undefined) request.topK = params.topK;
  if (params.minP !== undefined) request.minP = params.minP;
  if (params.repetitionPenalty !== undefined) request.repetitionPenalty = params.repetitionPenalty;
  if (params.seed !== undefined) request.seed = params.seed;
  if (logitBias.length > 0) request.logitBias = new Map(logitBias);
  if (asked.logprobs !== undefined) request.logprobs = asked.logprobs;
  return request;
}

/** Refuses a known field that the model does not offer (ERR-8), instead of dropping it silently. */
export function refuseUnlessAble(able: boolean, param: string, model: string): void {
  if (able) return;
  throw new ServiceError("unsupported_parameter", `'${param}' is not supported by the model '${model}'.`, { param });
}

/** Refuses a known value that the model does not offer. `what` begins the sentence: "Images are". */
export function refuseValueUnlessAble(able: boolean, what: string, param: string, model: string): void {
  if (able) return;
  throw new ServiceError("unsupported_value", `${what} not supported by the model '${model}'.`, { param });
}
