import {
  type ChatCompletionParams,
  type ResponseFormat,
  type Tool,
  ToolChoice_Mode,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionParams, TokenList } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParams } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import type { ClientLabels } from "../call/observer.js";
import {
  checkCount,
  checkFunctionName,
  checkInteger,
  checkLength,
  checkNotEmpty,
  checkNumber,
  checkOneOf,
  checkPresent,
  quote,
  refuse,
  refuseValue,
} from "../call/service-error.js";
import { validateMessages } from "./validate-messages.js";

const reasoningEfforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const verbosities = ["low", "medium", "high"];
const topLogprobsMax = 20;

/** Validates a chat request as far as no model is needed; `toChatRequest` checks the rest. Throws ServiceError. */
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
  refuseValue(
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
  refuseValue(param, `'${param}' must be a JSON object, but is something else.`);
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
    refuseValue("metadata", `'metadata' may have at most ${max} pairs, but has ${pairs.length}.`);
  }
  for (const [key, value] of pairs) {
    checkLength(key, "metadata", fixedLimits.metadataKeyCharsMax);
    checkLength(value, "metadata", fixedLimits.metadataValueCharsMax);
  }
}

/**
 * Labels of a valid request, for the operator; null if it has none. Nearly all requests have no labels; for them only the
 * list of metadata keys is allocated.
 */
export function chatLabels({
  user,
  safetyIdentifier,
  promptCacheKey,
  metadata,
}: ChatCompletionParams): ClientLabels | null {
  const hasMetadata = Object.keys(metadata).length > 0;
  if (user === undefined && safetyIdentifier === undefined && promptCacheKey === undefined && !hasMetadata) return null;
  return { user, safetyIdentifier, promptCacheKey, ...(hasMetadata ? { metadata } : {}) };
}

export function userLabel({ user }: CompletionParams | EmbeddingParams): ClientLabels | null {
  return user === undefined ? null : { user };
}

function validateResponseFormat(responseFormat: ResponseFormat | undefined, limits: ServiceLimits): void {
  const format = responseFormat?.format;
  if (format === undefined || format.case === "text" || format.case === "jsonObject") return;
  const param = "response_format";
  if (format.case === undefined) {
    refuseValue(param, `'${param}' must be 'text', 'json_object' or 'json_schema', but none is set.`);
  }
  const { name, schemaJson } = format.value;
  checkFunctionName(name, `${param}.json_schema.name`);
  if (schemaJson === undefined) return;
  const field = { code: "invalid_json_schema", param } as const;
  if (schemaJson.length > limits.schemaCharsMax) {
    refuseSchema(field, `may have ${limits.schemaCharsMax} characters, but has ${schemaJson.length}.`);
  }
  checkSchema(schemaJson, field);
}

const tokenId = /^\d{1,10}$/;
/** Lone surrogates occur only in strings from JSON; no model can generate them. */
const loneSurrogate = /\p{Surrogate}/u;

/** Validates the fields that chat and text completions have in common: sampling parameters, stop strings, logit_bias. */
export function validateSampling(params: ChatCompletionParams | CompletionParams, limits: ServiceLimits): void {
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
      refuseValue("stop", "'stop' must be well-formed Unicode, but has half of a surrogate pair.");
    }
  }
}

function validateLogitBias(logitBias: { readonly [token: string]: number }): void {
  for (const [token, bias] of Object.entries(logitBias)) {
    if (!tokenId.test(token) || Number(token) > fixedLimits.int32Max) {
      refuseValue("logit_bias", `The keys of 'logit_bias' must be decimal token ids, but one is ${quote(token)}.`);
    }
    if (!(bias >= -100 && bias <= 100)) {
      refuseValue("logit_bias", `The values of 'logit_bias' must be from -100 to 100, but one is ${bias}.`);
    }
  }
}

/** Throws for empty lists and for numbers that no vocabulary can contain. */
export function validateTokenLists(lists: readonly TokenList[], param: string): void {
  for (const [i, { ids }] of lists.entries()) {
    const at = `${param}[${i}]`;
    checkNotEmpty(ids.length, at);
    for (const id of ids) checkInteger(id, at, 0, fixedLimits.int32Max);
  }
}

function validateTools({ tools, toolChoice }: ChatCompletionParams, limits: ServiceLimits): void {
  checkCount(tools.length, "tools", limits.toolsMax);
  let schemaChars = 0;
  for (const [i, tool] of tools.entries()) {
    schemaChars += tool.function?.parametersJson?.length ?? 0;
    validateTool(tool, `tools[${i}].function`, schemaChars, limits);
  }
  if (toolChoice !== undefined) validateChoice(toolChoice, tools);
}

/** `schemaChars` counts this tool and all before it. */
function validateTool(tool: Tool, at: string, schemaChars: number, limits: ServiceLimits): void {
  if (tool.function === undefined) {
    refuse("missing_required_parameter", at, `'${at}' is required, but is missing: functions are the only tools.`);
  }
  checkFunctionName(tool.function.name, `${at}.name`);
  const { parametersJson } = tool.function;
  if (parametersJson === undefined) return;
  const field = { code: "invalid_function_parameters", param: `${at}.parameters` } as const;
  if (schemaChars > limits.schemaCharsMax) {
    refuse(
      field.code,
      field.param,
      `The JSON Schemas of all 'tools' may have ${limits.schemaCharsMax} characters together, but up to '${field.param}' there are ${schemaChars}.`,
    );
  }
  checkSchema(parametersJson, field);
}

function validateChoice({ choice }: NonNullable<ChatCompletionParams["toolChoice"]>, tools: readonly Tool[]): void {
  switch (choice.case) {
    case "mode":
      validateMode(choice.value, ["none", "auto", "required"]);
      if (choice.value === ToolChoice_Mode.REQUIRED && tools.length === 0) {
        refuseValue("tool_choice", "'tool_choice' may be 'required' only with 'tools', but there are none.");
      }
      return;
    case "function":
      validateOffered(choice.value, tools);
      return;
    case "allowed":
      validateMode(choice.value.mode, ["auto", "required"]);
      checkNotEmpty(choice.value.names.length, "tool_choice.allowed_tools.tools");
      for (const name of choice.value.names) validateOffered(name, tools);
      return;
    default:
      refuseValue("tool_choice", "'tool_choice' must be a mode, a function or allowed tools, but none is set.");
  }
}

const modeNames = new Map<number, string>([
  [ToolChoice_Mode.NONE, "none"],
  [ToolChoice_Mode.AUTO, "auto"],
  [ToolChoice_Mode.REQUIRED, "required"],
]);

function validateMode(mode: ToolChoice_Mode, allowed: readonly string[]): void {
  const given = modeNames.get(mode);
  if (given !== undefined && allowed.includes(given)) return;
  const list = allowed.map((name) => `'${name}'`).join(", ");
  const shown = given === undefined ? `the number ${mode}` : `'${given}'`;
  refuseValue("tool_choice", `The mode of 'tool_choice' must be one of ${list}, but is ${shown}.`);
}

function validateOffered(name: string, tools: readonly Tool[]): void {
  if (tools.some((tool) => tool.function?.name === name)) return;
  refuseValue("tool_choice", `'tool_choice' must name one of the functions in 'tools', but names ${quote(name)}.`);
}

/** Schemas are compiled into grammars, so their size is bounded first (SEC-10). */
const schemaNodesMax = 2_000;
const schemaDepthMax = 32;

/** The field of a schema and the error code for an invalid one. */
interface SchemaField {
  readonly code: "invalid_function_parameters" | "invalid_json_schema";
  readonly param: string;
}

/**
 * Throws unless the JSON Schema is an object with at most 2,000 values and 32 levels that refers to no other document.
 * The caller bounds the length of the text.
 */
export function checkSchema(text: string, field: SchemaField): void {
  const schema = parse(text, field);
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    const kind = schema === null ? "null" : Array.isArray(schema) ? "an array" : `a ${typeof schema}`;
    refuseSchema(field, `must be an object, but is ${kind}.`);
  }
  let nodes = 0;
  const visit = (value: unknown, depth: number): void => {
    nodes++;
    if (nodes > schemaNodesMax) refuseSchema(field, `may have at most ${schemaNodesMax} values, but has more.`);
    if (typeof value !== "object" || value === null) return;
    if (depth > schemaDepthMax) refuseSchema(field, `may have at most ${schemaDepthMax} levels, but has more.`);
    for (const [key, child] of Object.entries(value)) {
      checkReference(key, child, field);
      visit(child, depth + 1);
    }
  };
  visit(schema, 1);
}

function parse(text: string, field: SchemaField): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the input, so it is not passed on.
    return refuseSchema(field, "must be JSON, but cannot be parsed.");
  }
}

function checkReference(key: string, value: unknown, { code, param }: SchemaField): void {
  if (key !== "$ref" && key !== "$dynamicRef") return;
  if (typeof value !== "string" || value.startsWith("#")) return;
  refuse(code, param, `A reference in the JSON Schema of '${param}' must begin with '#', but is ${quote(value)}.`);
}

function refuseSchema({ code, param }: SchemaField, problem: string): never {
  refuse(code, param, `The JSON Schema of '${param}' ${problem}`);
}
