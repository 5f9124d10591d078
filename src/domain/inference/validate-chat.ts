import type {
  ChatCompletionParams,
  ResponseFormat,
  ResponseFormat_JsonSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import {
  checkCount,
  checkFunctionName,
  checkInteger,
  checkLength,
  checkNumber,
  checkOneOf,
  checkPresent,
  quote,
  refuse,
} from "../call/service-error.js";
import type { SamplingParams } from "./chat-request.js";
import { validateMessages } from "./validate-messages.js";
import { checkSchema, validateTools } from "./validate-tools.js";

const reasoningEfforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const verbosities = ["low", "medium", "high"];
const topLogprobsMax = 20;

/**
 * Validates a chat request as far as no model is needed: ranges, counts and combinations. `toChatRequest` checks the
 * rest. Throws ServiceError.
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

/** Fields that are only recorded: end-user ids, cache key, tier, metadata. */
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

/** Validates response_format. */
export function validateResponseFormat(responseFormat: ResponseFormat | undefined, limits: ServiceLimits): void {
  const format = responseFormat?.format;
  if (format === undefined) return;
  if (format.case === undefined) {
    refuse(
      "invalid_value",
      "response_format",
      "'response_format' must be 'text', 'json_object' or 'json_schema', but none is set.",
    );
  }
  if (format.case === "jsonSchema") validateJsonSchema(format.value, limits);
}

function validateJsonSchema({ name, schemaJson }: ResponseFormat_JsonSchema, limits: ServiceLimits): void {
  checkFunctionName(name, "response_format.json_schema.name");
  if (schemaJson === undefined) return;
  const place = { code: "invalid_json_schema", param: "response_format" } as const;
  if (schemaJson.length > limits.schemaCharsMax) {
    refuse(
      place.code,
      place.param,
      `The JSON Schema of 'response_format' may have ${limits.schemaCharsMax} characters, but has ${schemaJson.length}.`,
    );
  }
  checkSchema(schemaJson, place);
}

const tokenId = /^\d{1,10}$/;
/** Lone surrogates occur only in strings from JSON; no model can generate them. */
const loneSurrogate = /\p{Surrogate}/u;

/** Validates what chat and text completions share: sampling parameters, stop strings, logit_bias. */
export function validateSampling(params: SamplingParams, limits: ServiceLimits): void {
  checkNumber(params.temperature, "temperature", 0, 2);
  checkNumber(params.topP, "top_p", 0, 1);
  checkNumber(params.frequencyPenalty, "frequency_penalty", -2, 2);
  checkNumber(params.presencePenalty, "presence_penalty", -2, 2);
  checkInteger(params.n, "n", 1, Math.min(limits.nMax, limits.choicesMax));
  checkInteger(params.topK, "top_k", 0, fixedLimits.int32Max);
  checkNumber(params.minP, "min_p", 0, 1);
  checkNumber(params.repetitionPenalty, "repetition_penalty", 0, 2);
  if (params.repetitionPenalty === 0) {
    refuse("decimal_below_min_value", "repetition_penalty", "'repetition_penalty' must be above 0, but is 0.");
  }
  validateStop(params.stop, limits);
  validateLogitBias(params.logitBias);
}

/** Empty stop strings are ignored (CHAT-7). */
function validateStop(stop: readonly string[], limits: ServiceLimits): void {
  const texts = stop.filter((text) => text !== "");
  checkCount(texts.length, "stop", limits.stopMax);
  for (const text of texts) {
    checkLength(text, "stop", limits.stopCharsMax);
    if (loneSurrogate.test(text)) {
      refuse("invalid_value", "stop", "'stop' must be well-formed Unicode, but has half of a surrogate pair.");
    }
  }
}

function validateLogitBias(logitBias: { readonly [token: string]: number }): void {
  for (const [token, bias] of Object.entries(logitBias)) {
    if (!tokenId.test(token) || Number(token) > fixedLimits.int32Max) {
      refuse(
        "invalid_value",
        "logit_bias",
        `The keys of 'logit_bias' must be decimal token ids, but one is ${quote(token)}.`,
      );
    }
    if (!(bias >= -100 && bias <= 100)) {
      refuse("invalid_value", "logit_bias", `The values of 'logit_bias' must be from -100 to 100, but one is ${bias}.`);
    }
  }
}
