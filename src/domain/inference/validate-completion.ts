import type { CompletionParams, TokenList } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { checkCount, checkInteger, checkLength, checkNotEmpty, checkPresent, refuse } from "../call/service-error.js";
import { validateSampling } from "./validate-chat.js";

const logprobsMax = 5;
const bestOfMax = 20;

/** Validates a completions request as far as no model is needed. Throws ServiceError. */
export function validateCompletion(params: CompletionParams, limits: ServiceLimits): void {
  checkPresent(params.model, "model");
  validateSampling(params, limits);
  validatePrompts(params, limits);
  checkInteger(params.maxTokens, "max_tokens", 0, fixedLimits.int32Max);
  if (params.maxTokens === 0 && params.echo !== true) {
    refuse("integer_below_min_value", "max_tokens", "'max_tokens' must be at least 1 without 'echo', but is 0.");
  }
  checkInteger(params.logprobs, "logprobs", 0, logprobsMax);
  validateBestOf(params);
  checkLength(params.user, "user", fixedLimits.userCharsMax);
}

function validatePrompts({ prompt, promptTokens, n }: CompletionParams, limits: ServiceLimits): void {
  const count = prompt.length + promptTokens.length;
  if (count === 0) refuse("missing_required_parameter", "prompt", "'prompt' is required, but is missing or empty.");
  if (prompt.length > 0 && promptTokens.length > 0) {
    refuse("invalid_value", "prompt", "'prompt' must be texts or token ids, but is both.");
  }
  checkCount(count, "prompt", limits.choicesMax);
  validateTokenLists(promptTokens, "prompt");
  const choices = count * (n ?? 1);
  if (choices > limits.choicesMax) {
    refuse(
      "integer_above_max_value",
      "n",
      `'n' times the number of prompts may be at most ${limits.choicesMax}, but is ${choices}.`,
    );
  }
}

/** `best_of` is not supported, so only values without effect pass (CMPL-10). */
function validateBestOf({ bestOf, n }: CompletionParams): void {
  checkInteger(bestOf, "best_of", 0, bestOfMax);
  if (bestOf === undefined || bestOf === 1 || bestOf === (n ?? 1)) return;
  refuse("unsupported_parameter", "best_of", `'best_of' may only be 1 or the value of 'n' here, but is ${bestOf}.`);
}

/** Validates an embeddings request as far as no model is needed. Throws ServiceError. */
export function validateEmbeddings(params: EmbeddingParams, limits: ServiceLimits): void {
  const { input, inputTokens } = params;
  checkPresent(params.model, "model");
  const count = input.length + inputTokens.length;
  if (count === 0) refuse("missing_required_parameter", "input", "'input' is required, but is missing or empty.");
  if (input.length > 0 && inputTokens.length > 0) {
    refuse("invalid_value", "input", "'input' must be texts or token ids, but is both.");
  }
  checkCount(count, "input", limits.embeddingInputsMax);
  for (const [i, text] of input.entries()) {
    const at = count === 1 ? "input" : `input[${i}]`;
    if (text === "") refuse("invalid_value", at, `'${at}' must have at least 1 character, but is empty.`);
  }
  validateTokenLists(inputTokens, "input");
  checkInteger(params.dimensions, "dimensions", 1, fixedLimits.int32Max);
  checkLength(params.user, "user", fixedLimits.userCharsMax);
}

/** Throws for empty lists and for numbers that no vocabulary can contain. */
export function validateTokenLists(lists: readonly TokenList[], param: string): void {
  for (const [i, { ids }] of lists.entries()) {
    const at = `${param}[${i}]`;
    checkNotEmpty(ids.length, at);
    for (const id of ids) checkInteger(id, at, 0, fixedLimits.int32Max);
  }
}
