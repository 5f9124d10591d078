import { ServiceError } from "../service-error.js";
import type { Capabilities, GenerateRequest } from "./engine.js";

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

type SamplingRequest = Pick<
  GenerateRequest,
  | "n"
  | "maxTokens"
  | "stop"
  | "temperature"
  | "topP"
  | "topK"
  | "minP"
  | "repetitionPenalty"
  | "seed"
  | "frequencyPenalty"
  | "presencePenalty"
  | "logitBias"
  | "logprobs"
>;

/**
 * The sampling part of an engine request, defaults filled in. `logprobs` undefined: none are asked for. Refuses what
 * the model cannot do.
 */
export function toSampling(
  params: SamplingParams,
  asked: { readonly maxTokens: number | undefined; readonly logprobs: number | undefined },
  caps: Capabilities,
): SamplingRequest {
  const logitBias = Object.entries(params.logitBias).map(([id, bias]) => [Number(id), bias] as const);
  refuseUnlessAble(caps.logitBias || logitBias.length === 0, "logit_bias", params.model);
  refuseUnlessAble(caps.penalties || !params.frequencyPenalty, "frequency_penalty", params.model);
  refuseUnlessAble(caps.penalties || !params.presencePenalty, "presence_penalty", params.model);
  refuseUnlessAble(caps.logprobs > 0 || asked.logprobs === undefined, "logprobs", params.model);
  return {
    n: params.n ?? 1,
    maxTokens: asked.maxTokens === undefined ? null : Math.min(asked.maxTokens, caps.maxOutput),
    stop: params.stop.filter((text) => text !== ""),
    temperature: params.temperature ?? 1,
    topP: params.topP ?? 1,
    frequencyPenalty: params.frequencyPenalty ?? 0,
    presencePenalty: params.presencePenalty ?? 0,
    ...(params.topK === undefined ? {} : { topK: params.topK }),
    ...(params.minP === undefined ? {} : { minP: params.minP }),
    ...(params.repetitionPenalty === undefined ? {} : { repetitionPenalty: params.repetitionPenalty }),
    ...(params.seed === undefined ? {} : { seed: params.seed }),
    ...(logitBias.length === 0 ? {} : { logitBias: new Map(logitBias) }),
    ...(asked.logprobs === undefined ? {} : { logprobs: asked.logprobs }),
  };
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
