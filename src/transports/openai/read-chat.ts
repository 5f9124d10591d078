import type { ChatCompletionParams } from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { asString, type JsonObject, unknownValue } from "./json-object.js";
import { readMessages } from "./read-message.js";
import { readResponseFormat } from "./read-response-format.js";
import { readSampling, samplingFields } from "./read-sampling.js";
import { readStreaming, type Streaming, streamingFields } from "./read-streaming.js";
import { readToolChoice, readTools } from "./read-tools.js";

export interface ChatCall extends Streaming {
  readonly params: ChatCompletionParams;
}

/** Reads the body of `POST /v1/chat/completions`. Throws ServiceError. */
export function readChat(body: JsonObject): ChatCall {
  refuseUnsupported(body);
  const sampling = readSampling(body);
  // A literal of one shape, each field by name: `create` would look at each of them, a spread copies them one by one.
  const params: ChatCompletionParams = {
    $typeName: "unified.inference.v1.ChatCompletionParams",
    model: sampling.model,
    messages: readMessages(body),
    temperature: sampling.temperature,
    topP: sampling.topP,
    n: sampling.n,
    maxTokens: sampling.maxTokens,
    maxCompletionTokens: body.int32("max_completion_tokens"),
    stop: sampling.stop,
    seed: sampling.seed,
    frequencyPenalty: sampling.frequencyPenalty,
    presencePenalty: sampling.presencePenalty,
    logitBias: sampling.logitBias,
    logprobs: body.boolean("logprobs"),
    topLogprobs: body.int32("top_logprobs"),
    responseFormat: readResponseFormat(body),
    tools: readTools(body),
    toolChoice: readToolChoice(body),
    parallelToolCalls: body.boolean("parallel_tool_calls"),
    user: sampling.user,
    safetyIdentifier: body.string("safety_identifier"),
    promptCacheKey: body.string("prompt_cache_key"),
    metadata: body.map("metadata", asString) ?? {},
    store: body.boolean("store"),
    serviceTier: body.string("service_tier"),
    reasoningEffort: body.string("reasoning_effort"),
    verbosity: body.string("verbosity"),
    modalities: readModalities(body),
    topK: sampling.topK,
    minP: sampling.minP,
    repetitionPenalty: sampling.repetitionPenalty,
    chatTemplateKwargsJson: body.objectAsText("chat_template_kwargs"),
  };
  const { stream, includeUsage } = readStreaming(body);
  return { params, stream, includeUsage };
}

/** What would be dropped silently if it were ignored, although the caller relies on it. */
function refuseUnsupported(body: JsonObject): void {
  refuse(body, "functions", "Use 'tools' and 'tool_choice' instead.");
  refuse(body, "function_call", "Use 'tools' and 'tool_choice' instead.");
  refuse(body, "web_search_options", "This service does not search the web.");
  refuse(body, "moderation", "This service does not moderate content.");
  if (body.value("audio") !== undefined) throw noAudio("audio");
}

function refuse(body: JsonObject, field: string, why: string): void {
  if (body.value(field) === undefined) return;
  throw new ServiceError("unsupported_parameter", `Unsupported parameter: '${field}'. ${why}`, { param: field });
}

function readModalities(body: JsonObject): string[] {
  const modalities = body.strings("modalities") ?? [];
  for (const [i, modality] of modalities.entries()) {
    if (modality === "audio") throw noAudio("modalities");
    if (modality !== "text") throw unknownValue(`modalities[${i}]`, modality, ["text"]);
  }
  return modalities;
}

function noAudio(param: string): ServiceError {
  return new ServiceError("unsupported_value", `Unsupported value in '${param}': answers are text, not audio.`, {
    param,
  });
}

/** Fields of the body that are known: read, refused, or accepted without effect (CHAT-19, CHAT-27). */
export const chatFields: ReadonlySet<string> = new Set([
  ...samplingFields,
  ...streamingFields,
  "messages",
  "max_completion_tokens",
  "logprobs",
  "top_logprobs",
  "response_format",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "safety_identifier",
  "prompt_cache_key",
  "metadata",
  "store",
  "service_tier",
  "reasoning_effort",
  "verbosity",
  "modalities",
  "audio",
  "functions",
  "function_call",
  "web_search_options",
  "moderation",
  "chat_template_kwargs",
  "prediction",
  "prompt_cache_options",
  "prompt_cache_retention",
]);
