import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ChatCompletionParams,
  ToolChoice_Mode as Mode,
  type ResponseFormat,
  ResponseFormatSchema,
  type Tool,
  type ToolChoice,
  ToolChoiceSchema,
  ToolSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { refuse } from "../../domain/call/service-error.js";
import { asNumber, asString, type JsonObject, unknownValue, wrongType } from "../http/json-object.js";
import { readMessages } from "./read-messages.js";

/** Reads the body of `POST /v1/chat/completions`. Throws ServiceError. */
export function readChat(body: JsonObject): Streaming & { readonly params: ChatCompletionParams } {
  refuseUnsupported(body);
  const sampling = readSampling(body);
  // A literal of one shape, each field by name: `create` would visit every field, and a spread would copy each one.
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
    passThroughJson: body.unknownFields(chatFields),
  };
  const { stream, includeUsage } = readStreaming(body);
  return { params, stream, includeUsage };
}

/** Refuses unsupported fields that the caller relies on, because ignoring them would change the answer silently. */
function refuseUnsupported(body: JsonObject): void {
  refuseField(body, "functions", "Use 'tools' and 'tool_choice' instead.");
  refuseField(body, "function_call", "Use 'tools' and 'tool_choice' instead.");
  refuseField(body, "web_search_options", "This service does not search the web.");
  refuseField(body, "moderation", "This service does not moderate content.");
  if (body.value("audio") !== undefined) refuseAudio("audio");
}

function refuseField(body: JsonObject, field: string, why: string): void {
  if (body.value(field) !== undefined)
    refuse("unsupported_parameter", field, `Unsupported parameter: '${field}'. ${why}`);
}

function readModalities(body: JsonObject): string[] {
  const modalities = body.strings("modalities") ?? [];
  for (const [i, modality] of modalities.entries()) {
    if (modality === "audio") refuseAudio("modalities");
    if (modality !== "text") unknownValue(`modalities[${i}]`, modality, ["text"]);
  }
  return modalities;
}

function refuseAudio(param: string): never {
  refuse("unsupported_value", param, `Unsupported value in '${param}': answers are text, not audio.`);
}

/** Names of the fields that `readSampling` reads. */
export const samplingFields = [
  "model",
  "temperature",
  "top_p",
  "n",
  "max_tokens",
  "stop",
  "seed",
  "frequency_penalty",
  "presence_penalty",
  "logit_bias",
  "user",
  "top_k",
  "min_p",
  "repetition_penalty",
] as const;

/** Names of the fields that `readStreaming` reads. */
export const streamingFields = ["stream", "stream_options"] as const;

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

type ToolChoiceInit = MessageInitShape<typeof ToolChoiceSchema>;

const modes: ReadonlyMap<string, Mode> = new Map([
  ["none", Mode.NONE],
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);
const allowedModes: ReadonlyMap<string, Mode> = new Map([
  ["auto", Mode.AUTO],
  ["required", Mode.REQUIRED],
]);

/** Reads the tools that the model may call. An empty list means no tools (TOOL-2). */
function readTools(body: JsonObject): Tool[] {
  return (body.objects("tools") ?? []).map((tool) => {
    refuseOtherKinds(tool, ["function"]);
    const definition = tool.requiredObject("function");
    return create(ToolSchema, {
      function: {
        name: definition.requiredString("name"),
        description: definition.string("description"),
        parametersJson: definition.objectAsText("parameters"),
        strict: definition.boolean("strict"),
      },
    });
  });
}

/** Reads which tools may or must be called. The core checks that the named tools are in `tools`. */
function readToolChoice(body: JsonObject): ToolChoice | undefined {
  const value = body.value("tool_choice");
  if (typeof value === "string") return choiceOf({ case: "mode", value: readMode(modes, value, "tool_choice") });
  if (typeof value !== "object" && value !== undefined) wrongType("tool_choice", "a string or an object", value);
  const choice = body.object("tool_choice");
  return choice === undefined ? undefined : choiceOf(readChoiceObject(choice));
}

function choiceOf(choice: NonNullable<ToolChoiceInit["choice"]>): ToolChoice {
  return create(ToolChoiceSchema, { choice });
}

function readChoiceObject(choice: JsonObject): NonNullable<ToolChoiceInit["choice"]> {
  const type = refuseOtherKinds(choice, ["function", "allowed_tools"]);
  if (type === "function") return { case: "function", value: choice.requiredObject("function").requiredString("name") };
  const allowed = choice.requiredObject("allowed_tools");
  const mode = readMode(allowedModes, allowed.requiredString("mode"), allowed.pathOf("mode"));
  const names = (allowed.objects("tools") ?? []).map((tool) => {
    refuseOtherKinds(tool, ["function"]);
    return tool.requiredObject("function").requiredString("name");
  });
  return { case: "allowed", value: { mode, names } };
}

function readMode(among: ReadonlyMap<string, Mode>, name: string, path: string): Mode {
  const mode = among.get(name);
  if (mode === undefined) unknownValue(path, name, [...among.keys()]);
  return mode;
}

/** Reads the `type` of a tool or choice. Custom tools exist in OpenAI's API, but are not supported here (TOOL-7). */
function refuseOtherKinds(tool: JsonObject, supported: readonly string[]): string {
  const type = tool.requiredString("type");
  if (supported.includes(type)) return type;
  const path = tool.pathOf("type");
  if (type === "custom") {
    refuse("unsupported_value", path, `Unsupported value 'custom' for '${path}': only functions are offered.`);
  }
  return unknownValue(path, type, supported);
}

type FormatInit = MessageInitShape<typeof ResponseFormatSchema>;

/** The required form of the answer; undefined: free text. */
function readResponseFormat(body: JsonObject): ResponseFormat | undefined {
  const format = body.object("response_format");
  return format === undefined ? undefined : create(ResponseFormatSchema, readFormat(format));
}

function readFormat(format: JsonObject): FormatInit {
  const type = format.requiredString("type");
  switch (type) {
    case "text":
      return { format: { case: "text", value: {} } };
    case "json_object":
      return { format: readJsonObject(format) };
    case "json_schema":
      return { format: readJsonSchema(format.requiredObject("json_schema")) };
    default:
      return unknownValue("response_format.type", type, ["text", "json_object", "json_schema"]);
  }
}

/** Also reads llama.cpp's form, where `schema` is a member of the same object as the type `json_object` (RF-7). */
function readJsonObject(format: JsonObject): NonNullable<FormatInit["format"]> {
  const schemaJson = format.objectAsText("schema");
  if (schemaJson === undefined) return { case: "jsonObject", value: {} };
  return { case: "jsonSchema", value: { name: "json_object", schemaJson } };
}

function readJsonSchema(schema: JsonObject): NonNullable<FormatInit["format"]> {
  return {
    case: "jsonSchema",
    value: {
      name: schema.requiredString("name"),
      description: schema.string("description"),
      schemaJson: schema.objectAsText("schema"),
      strict: schema.boolean("strict"),
    },
  };
}

/**
 * Reads the fields that chat and text completions have in common. Checks only their types: the core checks the ranges, for
 * all protocols.
 */
export function readSampling(body: JsonObject) {
  return {
    model: body.requiredString("model"),
    temperature: body.number("temperature"),
    topP: body.number("top_p"),
    n: body.int32("n"),
    maxTokens: body.int32("max_tokens"),
    stop: body.stringOrStrings("stop") ?? [],
    seed: body.int64("seed"),
    frequencyPenalty: body.number("frequency_penalty"),
    presencePenalty: body.number("presence_penalty"),
    logitBias: body.map("logit_bias", asNumber) ?? {},
    user: body.string("user"),
    topK: body.int32("top_k"),
    minP: body.number("min_p"),
    repetitionPenalty: body.number("repetition_penalty"),
  };
}

/** How the answer is sent. Only REST has these fields in the body; in other protocols the called RPC decides. */
export interface Streaming {
  readonly stream: boolean;
  /** Whether the stream ends with a chunk of usage (STRM-10). */
  readonly includeUsage: boolean;
}

export function readStreaming(body: JsonObject): Streaming {
  const options = body.object("stream_options");
  // The type is checked, but the field has no effect: chunks are not padded (CHAT-19).
  options?.boolean("include_obfuscation");
  return {
    stream: body.boolean("stream") ?? false,
    includeUsage: options?.boolean("include_usage") ?? false,
  };
}
