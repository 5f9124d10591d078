import type { ChatCompletionParams } from "../../../gen/unified/inference/v1/chat_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import { checkInteger, checkLength, checkOneOf, checkPresent, refuse } from "../call/field-checks.js";
import { validateMessages } from "./validate-messages.js";
import { validateResponseFormat } from "./validate-response-format.js";
import { validateSampling } from "./validate-sampling.js";
import { validateTools } from "./validate-tools.js";

const reasoningEfforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const verbosities = ["low", "medium", "high"];
const topLogprobsMax = 20;

/**
 * The rules of a chat request that hold for every model: ranges, counts and what belongs together. What depends on the
 * model is `toChatRequest`'s. Throws ServiceError.
 */
export function validateChatCompletion(params: ChatCompletionParams, limits: ServiceLimits): void {
  checkPresent(params.model, "model");
  validateMessages(params.messages, limits);
  validateSampling(params, limits);
  checkInteger(params.maxTokens, "max_tokens", 1, fixedLimits.int32Max);
  checkInteger(params.maxCompletionTokens, "max_completion_tokens", 1, fixedLimits.int32Max);
  validateLogprobs(params);
  validateTools(params, limits);
  validateResponseFormat(params.responseFormat, limits);
  checkOneOf(params.reasoningEffort, "reasoning_effort", reasoningEfforts);
  checkOneOf(params.verbosity, "verbosity", verbosities);
  validateModalities(params.modalities);
  validateTemplateVariables(params.chatTemplateKwargsJson, limits);
  validateLabels(params);
}

function validateLogprobs({ logprobs, topLogprobs }: ChatCompletionParams): void {
  checkInteger(topLogprobs, "top_logprobs", 0, topLogprobsMax);
  if (topLogprobs === undefined || topLogprobs === 0 || logprobs === true) return;
  refuse(
    "invalid_value",
    "top_logprobs",
    `'top_logprobs' may be given only with 'logprobs' set to true, but is ${topLogprobs} without it.`,
  );
}

function validateModalities(modalities: readonly string[]): void {
  for (const modality of modalities) {
    checkOneOf(modality, "modalities", ["text", "audio"]);
    if (modality === "audio") {
      refuse("unsupported_value", "modalities", "'modalities' may hold only 'text' here, but asks for 'audio'.");
    }
  }
}

function validateTemplateVariables(text: string | undefined, limits: ServiceLimits): void {
  const param = "chat_template_kwargs";
  checkLength(text, param, limits.schemaCharsMax);
  if (text === undefined || isJsonObject(text)) return;
  refuse("invalid_value", param, `'${param}' must be a JSON object, but is something else.`);
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Texts that are only recorded: ids of the end user, cache key, tier, metadata. */
function validateLabels(params: ChatCompletionParams): void {
  checkLength(params.user, "user", fixedLimits.userCharsMax);
  checkLength(params.safetyIdentifier, "safety_identifier", fixedLimits.safetyIdentifierCharsMax);
  checkLength(params.promptCacheKey, "prompt_cache_key", fixedLimits.userCharsMax);
  checkLength(params.serviceTier, "service_tier", fixedLimits.nameCharsMax);
  const pairs = Object.entries(params.metadata);
  if (pairs.length > fixedLimits.metadataPairsMax) {
    const max = fixedLimits.metadataPairsMax;
    refuse("invalid_value", "metadata", `'metadata' may have at most ${max} pairs, but has ${pairs.length}.`);
  }
  for (const [key, value] of pairs) {
    checkLength(key, "metadata", fixedLimits.metadataKeyCharsMax);
    checkLength(value, "metadata", fixedLimits.metadataValueCharsMax);
  }
}
