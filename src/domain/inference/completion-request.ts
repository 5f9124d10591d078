import type { CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { Capabilities } from "../engine/engine.js";
import type { GenerateBase } from "../engine/generate-base.js";
import { refuseUnlessAble, refuseValueUnlessAble, toGenerate } from "./sampling-request.js";
import { refuseUnlessTokenInput } from "./token-input.js";

/**
 * What the engine is asked for a valid completions request, one request per prompt in their order. Refuses what this
 * model cannot do.
 */
export function toCompletionRequests(params: CompletionParams, caps: Capabilities): readonly GenerateBase[] {
  const { model, logprobs, echo } = params;
  refuseUnlessTokenInput(caps.tokenInput || params.promptTokens.length === 0, "prompt", model);
  // No engine fills gaps yet, and the port has no field for it: whatever a model says of itself, the suffix would be lost.
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
