import { type ContentPart, type Message, Role, type Tool } from "../../../../gen/unified/inference/v1/chat_pb.js";
import {
  type EmbedRequest,
  EngineError,
  type GenerateInput,
  type GenerateRequest,
  type PassOn,
  type RerankRequest,
  type ToolChoiceSpec,
} from "../../../domain/engine/engine.js";
import type { TextFormat } from "../../../domain/engine/text-format.js";
import { jsonString } from "../../../lib/json-string.js";
import { formatField } from "./format-fields.js";
import type { RequestDialect } from "./kinds.js";
import { parseJson } from "./upstream-failure.js";

export interface BodySettings {
  /** Id of the model on the server. */
  readonly model: string;
  readonly dialect: RequestDialect;
  /** Fields outside the API contract that may be passed on. */
  readonly passThrough: readonly string[];
}

/** Builds the text of a JSON object. Absent values add no member, so the server receives only fields that the client set. */
export class JsonObject {
  #text = "{";

  add(name: string, json: string | null | undefined): this {
    if (json === null || json === undefined) return this;
    this.#text += `${this.#text === "{" ? "" : ","}"${name}":${json}`;
    return this;
  }

  text(name: string, value: string | undefined): this {
    return value === undefined ? this : this.add(name, jsonString(value));
  }

  number(name: string | null, value: number | bigint | undefined): this {
    return value === undefined || name === null ? this : this.add(name, String(value));
  }

  toString(): string {
    return `${this.#text}}`;
  }
}

/**
 * Removes a chat's limit of output tokens that is not below the context length. Servers reject a limit that does not fit, and
 * their default is the rest of the context. Text completions keep the limit, because their default is 16.
 */
export function withinContext(request: GenerateRequest, contextLength: number | null): GenerateRequest {
  const { input, maxTokens } = request;
  const isBeyond = contextLength !== null && maxTokens !== null && maxTokens >= contextLength && "messages" in input;
  return isBeyond ? { ...request, maxTokens: null } : request;
}

/** The body of a chat or text completion. It always streams, because some kinds of servers notice an abort only then. */
export function generateBody(request: GenerateRequest, settings: BodySettings): string {
  const { dialect } = settings;
  const body = new JsonObject().text("model", settings.model);
  if ("messages" in request.input) addChat(body, request, request.input, dialect);
  else addCompletion(body, request, request.input.prompt, dialect);
  body
    .number("n", request.n > 1 ? request.n : undefined)
    .add("stop", request.stop.length > 0 ? JSON.stringify(request.stop) : null)
    .number("temperature", request.temperature)
    .number("top_p", request.topP)
    .number(dialect.topK, request.topK)
    .number(dialect.minP, request.minP)
    .number(dialect.repetitionPenalty, request.repetitionPenalty)
    .number("seed", request.seed)
    .number("frequency_penalty", request.frequencyPenalty)
    .number("presence_penalty", request.presencePenalty)
    .number("min_tokens", request.minTokens)
    .add("ignore_eos", request.ignoreEos === true ? "true" : null)
    .add("logit_bias", request.logitBias && JSON.stringify(Object.fromEntries(request.logitBias)))
    .add("stream", "true")
    .add("stream_options", streamOptions(dialect))
    .add("return_progress", dialect.promptProgress ? "true" : null);
  if (request.format !== undefined) addFormat(body, request.format, "messages" in request.input, dialect);
  if (request.passOn !== undefined) addPassOn(body, request.passOn, settings.passThrough);
  return body.toString();
}

/** Adds the format of the answer. `response_format` exists only for chats and only for JSON. */
function addFormat(body: JsonObject, format: TextFormat, isChat: boolean, { formatFields }: RequestDialect): void {
  if (format.type === "json_schema") {
    checkedJson(format.schemaJson, format.param ?? "response_format.json_schema.schema");
  }
  const ofChat = isChat ? formatJson(format) : null;
  if (ofChat === null) body.add(...formatField(format, formatFields));
  else body.add("response_format", ofChat);
}

function streamOptions({ continuousUsage, paddedChunks }: RequestDialect): string {
  return new JsonObject()
    .add("include_usage", "true")
    .add("continuous_usage_stats", continuousUsage ? "true" : null)
    .add("include_obfuscation", paddedChunks ? "false" : null)
    .toString();
}

type ChatInput = Extract<GenerateInput, { messages: unknown }>;

function addChat(body: JsonObject, request: GenerateRequest, input: ChatInput, dialect: RequestDialect): void {
  const { maxTokensField } = dialect;
  const asSent = request.passOn?.hasMaxCompletionTokens === true ? "max_completion_tokens" : "max_tokens";
  body
    .add("messages", `[${input.messages.map((message) => messageJson(message, dialect)).join()}]`)
    .number(maxTokensField === "as_sent" ? asSent : maxTokensField, request.maxTokens ?? undefined)
    .text("reasoning_effort", dialect.reasoningEffort ? request.reasoningEffort : undefined)
    .add(
      "chat_template_kwargs",
      dialect.chatTemplateKwargs ? checkedJson(request.chatTemplateKwargsJson, "chat_template_kwargs") : null,
    );
  if (request.logprobs !== undefined) {
    body.add("logprobs", "true").number("top_logprobs", request.logprobs > 0 ? request.logprobs : undefined);
  }
  if (input.tools.length === 0) return;
  body
    .add("tools", `[${input.tools.map(toolJson).join()}]`)
    .add("tool_choice", toolChoiceJson(input.toolChoice, dialect))
    .add("parallel_tool_calls", dialect.parallelToolCalls && !input.parallelToolCalls ? "false" : null);
}

function addCompletion(
  body: JsonObject,
  request: GenerateRequest,
  prompt: string | readonly number[],
  dialect: RequestDialect,
): void {
  if (request.echo === true && !dialect.echo && typeof prompt !== "string") {
    throw new EngineError("unsupported", "The server cannot echo a prompt of token ids.", { param: "echo" });
  }
  body
    .add("prompt", JSON.stringify(prompt))
    .number("max_tokens", dialect.echo ? (request.maxTokens ?? undefined) : atLeastOne(request.maxTokens))
    .number("logprobs", request.logprobs)
    .add("echo", request.echo === true && dialect.echo ? "true" : null);
}

/** The limit, at least 1: servers without `echo` reject or ignore a limit of 0. */
function atLeastOne(maxTokens: number | null): number | undefined {
  return maxTokens === null ? undefined : Math.max(1, maxTokens);
}

function addPassOn(body: JsonObject, passOn: PassOn, passThrough: readonly string[]): void {
  body
    .text("user", passOn.user)
    .text("safety_identifier", passOn.safetyIdentifier)
    .text("prompt_cache_key", passOn.promptCacheKey)
    .add("metadata", passOn.metadata && JSON.stringify(passOn.metadata))
    .add("store", passOn.store === undefined ? null : String(passOn.store))
    .text("service_tier", passOn.serviceTier)
    .text("verbosity", passOn.verbosity);
  addFields(body, passOn, passThrough, ownFields);
}

/** Adds the fields outside the API contract that a deployment passes on, without those in `except`. */
export function addFields(
  body: JsonObject,
  { fieldsJson }: PassOn,
  passThrough: readonly string[],
  except: ReadonlySet<string>,
): void {
  if (fieldsJson === undefined) return;
  for (const name of passThrough) {
    if (Object.hasOwn(fieldsJson, name) && !except.has(name)) {
      body.add(JSON.stringify(name).slice(1, -1), checkedJson(fieldsJson[name], name));
    }
  }
}

/** Fields that this engine sets itself and never passes on: a second field of the same name could replace the first. */
const ownFields = new Set(["model", "messages", "prompt", "stream", "stream_options", "n", "tools", "tool_choice"]);

/** JSON text that is inserted as it is, so that large numbers stay exact. Throws for text that is not one JSON value. */
export function checkedJson(text: string | undefined, param: string): string | null {
  if (text === undefined) return null;
  if (parseJson(text) === undefined) throw new EngineError("bad_input", `'${param}' is not JSON.`, { param });
  return text;
}

const roles: Readonly<Record<Role, string>> = {
  [Role.UNSPECIFIED]: "user",
  [Role.SYSTEM]: "system",
  [Role.DEVELOPER]: "developer",
  [Role.USER]: "user",
  [Role.ASSISTANT]: "assistant",
  [Role.TOOL]: "tool",
  [Role.FUNCTION]: "function",
};

function messageJson(message: Message, dialect: RequestDialect): string {
  const isDeveloper = message.role === Role.DEVELOPER && !dialect.developerRole;
  const calls = message.toolCalls.map(({ id, function: called }) =>
    new JsonObject()
      .text("id", id)
      .add("type", '"function"')
      .add(
        "function",
        new JsonObject()
          .text("name", called?.name ?? "")
          .text("arguments", argumentsJson(called?.argumentsJson ?? "{}", dialect))
          .toString(),
      )
      .toString(),
  );
  return new JsonObject()
    .text("role", isDeveloper ? "system" : roles[message.role])
    .add("content", contentJson(message, dialect))
    .text("name", message.name)
    .add("tool_calls", calls.length > 0 ? `[${calls.join()}]` : null)
    .text("tool_call_id", message.toolCallId)
    .toString();
}

/** The arguments of a call in an earlier answer. Arguments that were cut or malformed are sent as a text in an object. */
function argumentsJson(text: string, { anyHistory }: RequestDialect): string {
  if (anyHistory || parseJson(text) !== undefined) return text;
  return text.trim() === "" ? "{}" : JSON.stringify({ invalid_json: text });
}

/** Text parts joined to one string, which every server accepts; null if the message has only tool calls. */
function contentJson({ content }: Message, { anyHistory }: RequestDialect): string {
  const [first] = content;
  if (first === undefined) return "null";
  if (content.length === 1 && first.part.case === "text") return jsonString(first.part.value);
  const texts = content.flatMap(({ part }) =>
    part.case === "text" || (part.case === "refusal" && !anyHistory) ? [part.value] : [],
  );
  if (texts.length === content.length) return jsonString(texts.join(""));
  return `[${content.map(partJson).join()}]`;
}

function partJson({ part }: ContentPart): string {
  switch (part.case) {
    case "text":
      return `{"type":"text","text":${jsonString(part.value)}}`;
    case "refusal":
      return `{"type":"refusal","refusal":${jsonString(part.value)}}`;
    case "imageUrl": {
      const image = new JsonObject().text("url", part.value.url).text("detail", part.value.detail);
      return `{"type":"image_url","image_url":${image}}`;
    }
    case "inputAudio": {
      const audio = new JsonObject().text("data", part.value.data).text("format", part.value.format);
      return `{"type":"input_audio","input_audio":${audio}}`;
    }
    default:
      throw new EngineError("unsupported", "Files are not supported by the model.", { param: "messages" });
  }
}

function toolJson({ function: offered }: Tool, index: number): string {
  const definition = new JsonObject()
    .text("name", offered?.name ?? "")
    .text("description", offered?.description)
    .add("parameters", checkedJson(offered?.parametersJson, `tools[${index}].function.parameters`))
    .add("strict", offered?.strict === undefined ? null : String(offered.strict));
  return `{"type":"function","function":${definition}}`;
}

/** `tool_choice` as JSON; null if the server's own default applies: `auto`. */
function toolChoiceJson(choice: ToolChoiceSpec, dialect: RequestDialect): string | null {
  if (choice.mode === "auto") return null;
  if (choice.mode !== "named") return `"${choice.mode}"`;
  // The request offers only the named function, so `required` forces a call of it.
  return dialect.namedToolChoice ? `{"type":"function","function":{"name":${jsonString(choice.name)}}}` : '"required"';
}

/** `response_format` as JSON; null for a format that is not JSON. */
function formatJson(format: TextFormat): string | null {
  if (format.type === "json_object") return '{"type":"json_object"}';
  if (format.type !== "json_schema") return null;
  const schema = new JsonObject()
    .text("name", format.name)
    .add("schema", format.schemaJson)
    .add("strict", format.strict ? "true" : null);
  return `{"type":"json_schema","json_schema":${schema}}`;
}

/** The body of an embeddings request. It requests base64, which has a third of the bytes of numbers in decimal. */
export function embedBody({ inputs, dimensions }: EmbedRequest, { model }: Pick<BodySettings, "model">): string {
  return new JsonObject()
    .text("model", model)
    .add("input", JSON.stringify(inputs))
    .add("encoding_format", '"base64"')
    .number("dimensions", dimensions)
    .toString();
}

/** The body of a rerank request. Without `top_n`, all documents are scored. */
export function rerankBody({ query, documents }: RerankRequest, { model }: Pick<BodySettings, "model">): string {
  return new JsonObject()
    .text("model", model)
    .text("query", query)
    .add("documents", JSON.stringify(documents))
    .add("return_documents", "false")
    .toString();
}
