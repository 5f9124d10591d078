import type { CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { ServiceError } from "../call/service-error.js";
import type { Capabilities, EmbedRequest, GenerateRequest } from "../engine/engine.js";
import { refuseUnlessAble, refuseValueUnlessAble, toGenerate } from "./chat-request.js";

/**
 * Builds the engine requests of a valid completions request, one per prompt in order. Throws for what the model cannot
 * do.
 */
export function toCompletionRequests(params: CompletionParams, caps: Capabilities): readonly GenerateRequest[] {
  const { model, logprobs, echo } = params;
  refuseUnlessTokenInput(caps.tokenInput || params.promptTokens.length === 0, "prompt", model);
  // No engine supports a suffix, and the port has no field for it.
  refuseUnlessAble(params.suffix === undefined || params.suffix === "", "suffix", model);
  refuseValueUnlessAble(
    caps.echoLogprobs || echo !== true || logprobs === undefined,
    "Log probabilities of an echoed prompt are",
    "logprobs",
    model,
  );
  refuseValueUnlessAble(
    caps.logprobs === 0 || (logprobs ?? 0) <= caps.logprobs,
    `More than ${caps.logprobs} alternatives per token are`,
    "logprobs",
    model,
  );
  const prompts = params.prompt.length > 0 ? params.prompt : params.promptTokens.map((list) => list.ids);
  const request = toGenerate({ prompt: prompts[0] ?? "" }, params, { maxTokens: params.maxTokens, logprobs }, caps);
  if (echo === true) request.echo = echo;
  return prompts.map((prompt) => ({ ...request, input: { prompt } }));
}

/** Builds the engine request of a valid embeddings request. Throws for what the model cannot do. */
export function toEmbedRequest(params: EmbeddingParams, caps: Capabilities): EmbedRequest {
  refuseUnlessTokenInput(caps.tokenInput || params.inputTokens.length === 0, "input", params.model);
  const inputs = params.input.length > 0 ? params.input : params.inputTokens.map((list) => list.ids);
  const dimensions = dimensionsToMake(params, caps);
  return dimensions === undefined ? { inputs } : { inputs, dimensions };
}

/** Undefined for the model's native size, which is always valid (EMB-8). */
function dimensionsToMake({ dimensions, model }: EmbeddingParams, caps: Capabilities): number | undefined {
  if (dimensions === undefined || dimensions === caps.embeddingDims) return undefined;
  refuseUnlessAble(caps.shortenableEmbeddings === true, "dimensions", model);
  if (caps.embeddingDims !== undefined && dimensions > caps.embeddingDims) {
    throw new ServiceError(
      "integer_above_max_value",
      `'dimensions' must be at most ${caps.embeddingDims}, the length of the vectors of '${model}', but is ${dimensions}.`,
      { param: "dimensions" },
    );
  }
  return dimensions;
}

/**
 * Throws for token ids if the model takes only text (EMB-2): ids of another vocabulary would give a wrong answer
 * unnoticed. The hint names the client setting that sends them by default.
 */
export function refuseUnlessTokenInput(able: boolean, param: string, model: string): void {
  if (able) return;
  throw new ServiceError(
    "token_input_not_supported",
    `The model '${model}' takes '${param}' as text, not as token ids. With LangChain for Python, set ` +
      "check_embedding_ctx_length=False.",
    { param },
  );
}

/**
 * Plans the engine runs of a request. Choices are numbered prompt by prompt (CMPL-3). For an engine that cannot
 * generate several choices, a prompt runs several times with seeds at a fixed distance and counts once (CHAT-3,
 * CMPL-13).
 */
export function planPrompts(requests: readonly GenerateRequest[], caps: Capabilities): readonly Prompt[] {
  const prompts: Prompt[] = [];
  let base = 0;
  for (const request of requests) {
    if (request.n === 1 || caps.nativeN) prompts.push({ base, request, countsPrompt: true });
    else
      for (let k = 0; k < request.n; k++)
        prompts.push({ base: base + k, request: oneChoice(request, k), countsPrompt: k === 0 });
    base += request.n;
  }
  return prompts;
}

function oneChoice(request: GenerateRequest, k: number): GenerateRequest {
  return {
    ...request,
    n: 1,
    ...(request.seed === undefined ? {} : { seed: BigInt.asIntN(64, request.seed + BigInt(k)) }),
  };
}

/** One engine run, with the number of its first choice in the request. */
export interface Prompt {
  readonly base: number;
  readonly request: GenerateRequest;
  /** False for repeated runs of a prompt. */
  readonly countsPrompt: boolean;
}
