import { create } from "@bufbuild/protobuf";
import {
  type ChatCompletionParams,
  type ResponseFormat,
  ResponseFormatSchema,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { checkInteger, checkOneOf, refuse } from "../../../domain/call/service-error.js";
import { jsonString } from "../../../lib/json-string.js";
import { asString, type JsonObject, missingField, unknownValue, wrongType } from "../../http/json-object.js";
import { type Translated, translate } from "../../http/native.js";
import { Conversation } from "./conversation.js";
import { type OfferedTools, readTools } from "./read-tools.js";

/** The parts of an error that name fields of a request. */
interface Fault {
  /** The field at fault; null: none. */
  readonly param: string | null;
  readonly message: string;
}

/** A body of `POST /v1/responses`. */
export interface ResponseRequest {
  readonly params: ChatCompletionParams;
  readonly stream: boolean;
  /** The input before its translation: one text, or items. */
  readonly input: string | readonly JsonObject[];
  /** Members of an answer that is not stored which repeat the request or its defaults: JSON on one line, without braces. */
  readonly repeatedJson: string;
  /** `repeatedJson` of an answer that is stored; null: the answer is not to be stored. */
  readonly storedJson: string | null;
  /** Id of the stored response that the request continues; null: none. */
  readonly previousId: string | null;
  /** Replaces the names of chat's fields in an error of the core by the names of this API. */
  renamed<F extends Fault>(fault: F): F;
}

/** Fields of the body that are known: read, refused, or accepted without effect. */
export const responseFields: ReadonlySet<string> = new Set([
  ...["model", "input", "instructions", "max_output_tokens", "temperature", "top_p", "tools", "tool_choice"],
  ...["parallel_tool_calls", "text", "reasoning", "stream", "stream_options", "store", "metadata", "include"],
  ...["truncation", "top_logprobs", "previous_response_id", "conversation", "background", "prompt", "moderation"],
  ...["user", "safety_identifier", "prompt_cache_key", "service_tier", "max_tool_calls", "client_metadata"],
  ...["prompt_cache_options", "prompt_cache_retention", "context_management"],
  // Extensions of OpenAI's API that chat completions also have.
  ...["frequency_penalty", "presence_penalty", "seed", "stop", "top_k", "min_p", "repetition_penalty"],
  "chat_template_kwargs",
]);

/**
 * Translates the body of `POST /v1/responses`, and keeps the original for upstreams that support this API. A response that is
 * stored here or continues a stored one has no original. Parameters and errors are those of `readResponse`.
 */
export function translateResponse(
  body: JsonObject,
  earlier: readonly JsonObject[] | null,
): Translated<ResponseRequest> {
  const read = (): ResponseRequest => readResponse(body, earlier);
  const isOfService = body.fields["store"] !== false || (body.fields["previous_response_id"] ?? null) !== null;
  if (earlier !== null && isOfService) return { translation: read(), native: undefined };
  return translate("responses", body, {}, read, (params) => ({
    params,
    stream: body.boolean("stream") ?? false,
    input: "",
    repeatedJson: "",
    storedJson: null,
    previousId: null,
    renamed: (fault) => fault,
  }));
}

/**
 * Reads the body of `POST /v1/responses` (RSP-1). `earlier` are the items of the responses that it continues; null: no
 * responses are stored. Throws ServiceError.
 */
export function readResponse(body: JsonObject, earlier: readonly JsonObject[] | null = null): ResponseRequest {
  refuseUnsupported(body, earlier !== null);
  const model = body.requiredString("model");
  const input = readInput(body);
  const instructions = body.string("instructions");
  const conversation = conversationOf(instructions, earlier ?? [], input);
  const offered = readTools(body);
  const text = body.object("text");
  const format = text?.object("format");
  const { logprobs, topLogprobs } = readLogprobs(body);
  const reasoning = body.object("reasoning");
  // If no responses are stored, the answer's `store` is false, whatever was requested.
  const isStored = (body.boolean("store") ?? true) && earlier !== null;
  body.object("stream_options")?.boolean("include_obfuscation");
  const params: ChatCompletionParams = {
    $typeName: "unified.inference.v1.ChatCompletionParams",
    model,
    messages: conversation.messages,
    temperature: body.number("temperature"),
    topP: body.number("top_p"),
    maxCompletionTokens: body.int32("max_output_tokens"),
    stop: body.stringOrStrings("stop") ?? [],
    seed: body.int64("seed"),
    frequencyPenalty: body.number("frequency_penalty"),
    presencePenalty: body.number("presence_penalty"),
    logitBias: {},
    logprobs,
    topLogprobs,
    responseFormat: format === undefined ? undefined : readFormat(format),
    tools: offered.tools,
    toolChoice: offered.toolChoice,
    parallelToolCalls: body.boolean("parallel_tool_calls"),
    user: body.string("user"),
    safetyIdentifier: body.string("safety_identifier"),
    promptCacheKey: body.string("prompt_cache_key"),
    metadata: body.map("metadata", asString) ?? {},
    serviceTier: body.string("service_tier"),
    reasoningEffort: reasoning?.string("effort"),
    verbosity: text?.string("verbosity"),
    modalities: [],
    topK: body.int32("top_k"),
    minP: body.number("min_p"),
    repetitionPenalty: body.number("repetition_penalty"),
    chatTemplateKwargsJson: body.objectAsText("chat_template_kwargs"),
    passThroughJson: body.unknownFields(responseFields),
  };
  checkOneOf(body.string("truncation"), "truncation", ["auto", "disabled"]);
  return {
    params,
    stream: body.boolean("stream") ?? false,
    input,
    repeatedJson: repeatedJson(body, params, offered, false),
    storedJson: isStored ? repeatedJson(body, params, offered, true) : null,
    previousId: body.string("previous_response_id") ?? null,
    renamed: (fault) => renamed(fault, (name) => nameHere(name, conversation, offered)),
  };
}

/** The members of a response that repeat the request, with the defaults of OpenAI's API. */
function repeatedJson(
  body: JsonObject,
  params: ChatCompletionParams,
  offered: OfferedTools,
  isStored: boolean,
): string {
  const { maxCompletionTokens = null, parallelToolCalls = true, temperature = 1, topP = 1, topLogprobs = 0 } = params;
  const reasoning = body.object("reasoning");
  const effort = orNull(reasoning?.string("effort"));
  const format = onOneLine(body.object("text")?.objectAsText("format") ?? '{"type":"text"}');
  return (
    `"background":false,"instructions":${orNull(body.string("instructions"))},` +
    `"max_output_tokens":${maxCompletionTokens},"max_tool_calls":null,"metadata":${JSON.stringify(params.metadata)},` +
    `"model":${jsonString(params.model)},"parallel_tool_calls":${parallelToolCalls},` +
    `"previous_response_id":${orNull(body.string("previous_response_id"))},` +
    `"prompt_cache_key":${orNull(params.promptCacheKey)},` +
    `"reasoning":{"effort":${effort},"summary":${orNull(reasoning?.string("summary"))}},` +
    `"safety_identifier":${orNull(params.safetyIdentifier)},"service_tier":"default","store":${isStored},` +
    `"temperature":${temperature},"text":{"format":${format},"verbosity":${jsonString(params.verbosity ?? "medium")}},` +
    `"tool_choice":${onOneLine(offered.toolChoiceJson)},"tools":${onOneLine(offered.toolsJson)},` +
    `"top_logprobs":${topLogprobs},"top_p":${topP},"truncation":${jsonString(body.string("truncation") ?? "disabled")},` +
    `"user":${orNull(params.user)}`
  );
}

function orNull(text: string | undefined): string {
  return text === undefined ? "null" : jsonString(text);
}

/** Puts a client's JSON on one line, as SSE requires. Valid JSON has line ends only between its tokens. */
function onOneLine(json: string): string {
  return json.replaceAll(/[\r\n]+/g, " ");
}

/** Translates the messages of a request to chat. Throws ServiceError. */
function conversationOf(
  instructions: string | undefined,
  earlier: readonly JsonObject[],
  input: string | readonly JsonObject[],
): Conversation {
  const conversation = new Conversation(instructions);
  for (const item of earlier) conversation.addItem(item);
  if (typeof input === "string") conversation.addText(input);
  else for (const item of input) conversation.addItem(item);
  conversation.end();
  return conversation;
}

function readInput(body: JsonObject): string | readonly JsonObject[] {
  const input = body.value("input");
  if (input === undefined) missingField("input");
  if (typeof input === "string") return input;
  if (!Array.isArray(input)) wrongType("input", "a string or an array of items", input);
  if (input.length === 0) refuse("empty_array", "input", "'input' must have at least 1 item, but has none.");
  return body.objects("input") ?? [];
}

/** Refuses unsupported fields that the caller relies on, because ignoring them would change the answer silently (RSP-3). */
function refuseUnsupported(body: JsonObject, isStoring: boolean): void {
  if (!isStoring) {
    const why = "No responses are stored: the setting responses.keep is off. Send all items.";
    refuseField(body, "previous_response_id", why);
  }
  refuseField(body, "conversation", "This service stores no conversations. Send all items.");
  refuseField(body, "prompt", "This service stores no prompts. Send 'instructions' and 'input'.");
  refuseField(body, "moderation", "This service does not moderate content.");
  if (body.boolean("background") !== true) return;
  refuse("unsupported_parameter", "background", "Unsupported parameter: 'background'. Stream the response instead.");
}

function refuseField(body: JsonObject, field: string, why: string): void {
  if (body.value(field) !== undefined)
    refuse("unsupported_parameter", field, `Unsupported parameter: '${field}'. ${why}`);
}

const withLogprobs = "message.output_text.logprobs";

/** Allowed values of `include`. Only the log probabilities have an effect here. */
const includable = [
  withLogprobs,
  "reasoning.encrypted_content",
  "web_search_call.action.sources",
  "web_search_call.results",
  "file_search_call.results",
  "code_interpreter_call.outputs",
  "computer_call_output.output.image_url",
  "message.input_image.image_url",
];
const topLogprobsMax = 20;

/** Reads the log probabilities. `top_logprobs` has no effect without the matching `include`, as in OpenAI's API. */
function readLogprobs(body: JsonObject): { logprobs: boolean | undefined; topLogprobs: number | undefined } {
  const include = body.strings("include") ?? [];
  for (const [i, name] of include.entries()) {
    if (!includable.includes(name)) unknownValue(`include[${i}]`, name, includable);
  }
  const topLogprobs = body.int32("top_logprobs");
  checkInteger(topLogprobs, "top_logprobs", 0, topLogprobsMax);
  return include.includes(withLogprobs)
    ? { logprobs: true, topLogprobs }
    : { logprobs: undefined, topLogprobs: undefined };
}

/** Reads the format of the text. In this API the fields of a schema are members of the format itself. */
function readFormat(format: JsonObject): ResponseFormat {
  const type = format.requiredString("type");
  switch (type) {
    case "text":
      return create(ResponseFormatSchema, { format: { case: "text", value: {} } });
    case "json_object":
      return create(ResponseFormatSchema, { format: { case: "jsonObject", value: {} } });
    case "json_schema":
      return create(ResponseFormatSchema, {
        format: {
          case: "jsonSchema",
          value: {
            name: format.requiredString("name"),
            description: format.string("description"),
            schemaJson: format.objectAsText("schema"),
            strict: format.boolean("strict"),
          },
        },
      });
    default:
      return unknownValue(format.pathOf("type"), type, ["text", "json_object", "json_schema"]);
  }
}

const names: ReadonlyMap<string, string> = new Map([
  ["max_completion_tokens", "max_output_tokens"],
  ["reasoning_effort", "reasoning.effort"],
  ["verbosity", "text.verbosity"],
  ["logprobs", "include"],
]);

/** The name of a field of chat in this API. */
function nameHere(name: string, conversation: Conversation, { positions }: OfferedTools): string {
  if (name.startsWith("messages")) return conversation.pathOf(name);
  return (
    names.get(name) ??
    name
      .replace(/^response_format(\.json_schema)?/, "text.format")
      .replace(/^tool_choice\.allowed_tools/, "tool_choice")
      .replace(/^tools\[(\d+)\](?:\.function)?/, (_, index) => `tools[${positions[Number(index)] ?? index}]`)
  );
}

/** A field name in the quotes of an error message. */
const quotedField = /'([a-z_]+(?:\[\d+\]|\.[a-z_]+)*)'/g;

/** Replaces the names of fields in an error's `param` and in its message. */
function renamed<F extends Fault>(fault: F, nameOf: (name: string) => string): F {
  if (fault.param === null) return fault;
  const message = fault.message.replace(quotedField, (_, name: string) => `'${nameOf(name)}'`);
  return { ...fault, param: nameOf(fault.param), message };
}
