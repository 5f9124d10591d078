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
import { checkOneOf, refuse } from "../../domain/call/service-error.js";
import { type JsonObject, missingField, unknownValue } from "../http/json-object.js";
import { type Translated, translate } from "../http/native.js";
import { readConversation } from "./read-conversation.js";

/** Header that enables beta features of the API by name. */
export const betaHeader = "anthropic-beta";

/** A request in the core's form. */
export interface ReadMessage {
  readonly params: ChatCompletionParams;
  readonly stream: boolean;
  /** For errors: for each message of the core, the path from which it was read. */
  readonly sources: readonly string[];
}

/** Fields of the body that are known: read, refused, or accepted without effect. */
export const messageFields: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_tokens",
  "system",
  "stop_sequences",
  "stream",
  "temperature",
  "top_p",
  "top_k",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "metadata",
  "cache_control",
  "context_management",
  "service_tier",
  "container",
  "mcp_servers",
  "thread",
]);

/** Known fields of the body of a token count. */
export const countFields: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "cache_control",
  "context_management",
  "mcp_servers",
]);

/**
 * Translates the body of `POST /v1/messages`, and keeps the original for upstreams that support this API. `betas`: value of
 * the header that enables beta fields in the original. Throws ServiceError.
 */
export function translateMessage(body: JsonObject, betas: string | undefined): Translated<ReadMessage> {
  const headers = betas === undefined ? {} : { [betaHeader]: betas };
  return translate("messages", body, headers, readMessage, (params) => ({
    params,
    sources: [],
    stream: body.boolean("stream") ?? false,
  }));
}

/** Reads the body of `POST /v1/messages` (ANT-1). Throws ServiceError. */
export function readMessage(body: JsonObject): ReadMessage {
  const maxTokens = body.int32("max_tokens") ?? missingField("max_tokens");
  const { params, sources } = readPrompt(body);
  params.maxTokens = maxTokens;
  params.stop = body.strings("stop_sequences") ?? [];
  set(params, "temperature", body.number("temperature"));
  set(params, "topP", body.number("top_p"));
  set(params, "topK", body.int32("top_k"));
  set(params, "user", body.object("metadata")?.string("user_id"));
  return { params, sources, stream: body.boolean("stream") ?? false };
}

/** Reads the body of `POST /v1/messages/count_tokens`: only fields that are part of the prompt. Throws ServiceError. */
export function readCount(body: JsonObject): Omit<ReadMessage, "stream"> {
  return readPrompt(body);
}

function readPrompt(body: JsonObject): Omit<ReadMessage, "stream"> {
  refuseUnsupported(body);
  const { messages, sources } = readConversation(body);
  const choice = body.object("tool_choice");
  const outputConfig = body.object("output_config");
  // A literal of one shape: `create` would visit every field.
  const params: ChatCompletionParams = {
    $typeName: "unified.inference.v1.ChatCompletionParams",
    model: body.requiredString("model"),
    messages,
    stop: [],
    logitBias: {},
    tools: (body.objects("tools") ?? []).map(readTool),
    metadata: {},
    modalities: [],
    passThroughJson: body.unknownFields(messageFields),
  };
  if (choice !== undefined) {
    params.toolChoice = readToolChoice(choice);
    if (choice.boolean("disable_parallel_tool_use") === true) params.parallelToolCalls = false;
  }
  set(params, "reasoningEffort", readEffort(body.object("thinking"), outputConfig));
  set(params, "responseFormat", readFormat(outputConfig?.object("format")));
  return { params, sources };
}

/** Sets an optional field, unless it is absent. */
function set<K extends keyof ChatCompletionParams>(
  params: ChatCompletionParams,
  key: K,
  value: ChatCompletionParams[K] | undefined,
): void {
  if (value !== undefined) params[key] = value;
}

/** Refuses unsupported fields that the caller relies on, because ignoring them would change the answer silently. */
function refuseUnsupported(body: JsonObject): void {
  if ((body.array("mcp_servers") ?? []).length > 0) unsupported("mcp_servers", "This service calls no MCP servers.");
  if (body.value("thread") !== undefined) unsupported("thread", "Send the whole conversation: no answer is kept.");
  if (body.value("container") !== undefined) unsupported("container", "This service runs no code.");
}

function unsupported(param: string, why: string): never {
  refuse("unsupported_parameter", param, `Unsupported parameter: '${param}'. ${why}`);
}

/** Reads a function. Tools that Anthropic's servers run, and tools whose schema only Anthropic's models know, are refused. */
function readTool(tool: JsonObject): Tool {
  const type = tool.string("type") ?? "custom";
  if (type !== "custom") {
    const path = tool.pathOf("type");
    const advice = "only tools of the type 'custom', with a name and an input_schema, are offered";
    refuse("unsupported_value", path, `Unsupported value in '${path}': ${advice}.`);
  }
  return create(ToolSchema, {
    function: {
      name: tool.requiredString("name"),
      description: tool.string("description"),
      parametersJson: tool.objectAsText("input_schema") ?? missingField(tool.pathOf("input_schema")),
      strict: tool.boolean("strict"),
    },
  });
}

type ChoiceInit = NonNullable<MessageInitShape<typeof ToolChoiceSchema>["choice"]>;

/** The core checks that a named tool is offered. */
function readToolChoice(choice: JsonObject): ToolChoice {
  const type = choice.requiredString("type");
  const init = (): ChoiceInit => {
    switch (type) {
      case "auto":
        return { case: "mode", value: Mode.AUTO };
      case "any":
        return { case: "mode", value: Mode.REQUIRED };
      case "none":
        return { case: "mode", value: Mode.NONE };
      case "tool":
        return { case: "function", value: choice.requiredString("name") };
      default:
        return unknownValue(choice.pathOf("type"), type, ["auto", "any", "none", "tool"]);
    }
  };
  return create(ToolChoiceSchema, { choice: init() });
}

const thinkingTypes = ["enabled", "adaptive", "disabled"];
/** The effort for a `thinking.budget_tokens` of up to `tokensMax`; larger budgets are `high`. */
const budgets = [
  { effort: "low", tokensMax: 4_096 },
  { effort: "medium", tokensMax: 16_384 },
] as const;
/** Efforts of this API. `xhigh` and `max` become `high`, because many servers do not know them. */
const efforts = ["low", "medium", "high", "xhigh", "max"];

/** The core's reasoning effort. Undefined if the request has no `thinking`: then the model's default applies. */
function readEffort(thinking: JsonObject | undefined, outputConfig: JsonObject | undefined): string | undefined {
  const effort = outputConfig?.string("effort");
  checkOneOf(effort, "output_config.effort", efforts);
  if (thinking === undefined) return undefined;
  const type = thinking.requiredString("type");
  if (!thinkingTypes.includes(type)) unknownValue(thinking.pathOf("type"), type, thinkingTypes);
  if (type === "disabled") return "none";
  if (effort !== undefined) return effort === "low" || effort === "medium" ? effort : "high";
  const budget = thinking.int32("budget_tokens");
  if (budget === undefined) return "medium";
  return budgets.find(({ tokensMax }) => budget <= tokensMax)?.effort ?? "high";
}

/** Reads the required format of the text. This API has no name for it, but the core requires one. */
function readFormat(format: JsonObject | undefined): ResponseFormat | undefined {
  if (format === undefined) return undefined;
  const type = format.requiredString("type");
  if (type !== "json_schema") unknownValue(format.pathOf("type"), type, ["json_schema"]);
  const schemaJson = format.objectAsText("schema") ?? missingField(format.pathOf("schema"));
  return create(ResponseFormatSchema, {
    format: { case: "jsonSchema", value: { name: "output", schemaJson, strict: true } },
  });
}
