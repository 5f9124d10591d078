import type { Tool } from "../../../../gen/unified/inference/v1/chat_pb.js";
import {
  EngineError,
  type GenerateInput,
  type GenerateRequest,
  type ToolChoiceSpec,
} from "../../../domain/engine/engine.js";
import type { MessagesFacts } from "../../../domain/engine/upstream.js";
import { isObject, jsonString } from "../../../lib/json-string.js";
import { addFields, checkedJson, JsonObject } from "../protocol/request-body.js";
import { parseJson } from "../protocol/upstream-failure.js";
import { conversationOf } from "./conversation.js";
import { thinkingOf } from "./thinking.js";

export interface MessagesSettings {
  /** Id of the model on the server. */
  readonly model: string;
  /** Fields outside the API contract that may be passed on. */
  readonly passThrough: readonly string[];
  /** Properties of the model; null: the server does not state them. */
  readonly facts: MessagesFacts | null;
}

type ChatInput = Extract<GenerateInput, { messages: unknown }>;

/** Fields that this engine sets itself and never passes on: a second field of the same name could replace the first. */
const ownFields = [
  "model",
  "messages",
  "system",
  "max_tokens",
  "stop_sequences",
  "stream",
  "temperature",
  "top_k",
  "top_p",
  "tools",
  "tool_choice",
];

/**
 * The body of a request of Anthropic's Messages API. It always streams, because the server notices an abort only then. Options
 * that the API does not have, such as `seed`, are left out. If the deployment passes on `thinking` and `output_config`, the
 * client's values replace the values derived from its `reasoning_effort`.
 */
export function messagesBody(request: GenerateRequest, { model, passThrough, facts }: MessagesSettings): string {
  const { input, passOn } = request;
  if (!("messages" in input)) {
    throw new EngineError("unsupported", "Anthropic's API has no text completions.", { param: "prompt" });
  }
  const thinking = thinkingOf(request, input, facts);
  const { system, messages } = conversationOf(input.messages);
  const body = new JsonObject()
    .text("model", model)
    .number("max_tokens", thinking.maxTokens)
    .text("system", system)
    .add("messages", `[${messages.join()}]`);
  addTools(body, input);
  const { temperature } = request;
  body
    .add("stop_sequences", request.stop.length > 0 ? JSON.stringify(request.stop) : null)
    // The range of this API ends at 1, the range of OpenAI at 2. With thinking, it accepts no temperature and no top_k.
    .number("temperature", thinking.isOn || temperature === undefined ? undefined : Math.min(1, temperature))
    .number("top_k", thinking.isOn ? undefined : request.topK)
    .number("top_p", request.topP)
    .add("stream", "true");
  const own = new Set(ownFields);
  const isOurs = (name: string): boolean =>
    passOn?.fieldsJson === undefined || !Object.hasOwn(passOn.fieldsJson, name) || !passThrough.includes(name);
  if (isOurs("thinking")) body.add("thinking", thinking.json);
  if (request.format !== undefined || isOurs("output_config")) {
    body.add("output_config", outputConfig(thinking.effort, request.format));
    own.add("output_config");
  }
  if (passOn === undefined) return body.toString();
  const user = passOn.safetyIdentifier ?? passOn.user;
  if (user !== undefined) {
    body.add("metadata", `{"user_id":${jsonString(user)}}`);
    own.add("metadata");
  }
  addFields(body, passOn, passThrough, own);
  return body.toString();
}

/** `output_config` as JSON. A schema gets here only for a model that can enforce it; others are refused before. */
function outputConfig(effort: string | null, format: GenerateRequest["format"]): string | null {
  if (format?.type === "json_object") {
    throw new EngineError("unsupported", "Anthropic's API has no JSON mode without a schema.", {
      param: "response_format",
    });
  }
  if (effort === null && format === undefined) return null;
  if (format !== undefined && format.type !== "json_schema") {
    const { param = "response_format" } = format;
    throw new EngineError("unsupported", `'${param}' is not supported by Anthropic's API.`, { param });
  }
  const schema = format && checkedJson(format.schemaJson, "response_format.json_schema.schema");
  return new JsonObject()
    .text("effort", effort ?? undefined)
    .add("format", schema && `{"type":"json_schema","schema":${schema}}`)
    .toString();
}

/**
 * Adds the tools. The API rejects conversations with calls if the request offers no tools, as with `tool_choice: none`: then
 * the tools that were called are listed, and calling them is forbidden.
 */
function addTools(body: JsonObject, { messages, tools, toolChoice, parallelToolCalls }: ChatInput): void {
  if (tools.length > 0) {
    body
      .add("tools", `[${tools.map(toolJson).join()}]`)
      .add("tool_choice", toolChoiceJson(toolChoice, parallelToolCalls));
    return;
  }
  const called = new Set(messages.flatMap(({ toolCalls }) => toolCalls.map((call) => call.function?.name ?? "")));
  if (called.size === 0) return;
  const named = [...called].map((name) => `{"name":${jsonString(name)},"input_schema":${emptySchema}}`);
  body.add("tools", `[${named.join()}]`).add("tool_choice", '{"type":"none"}');
}

const emptySchema = '{"type":"object","properties":{}}';

function toolJson({ function: offered }: Tool, index: number): string {
  return new JsonObject()
    .text("name", offered?.name ?? "")
    .text("description", offered?.description)
    .add("input_schema", inputSchema(offered?.parametersJson, `tools[${index}].function.parameters`))
    .add("strict", offered?.strict === true ? "true" : null)
    .toString();
}

/** Adds the type `object`, which the API requires and clients leave out for tools without parameters. */
function inputSchema(parametersJson: string | undefined, param: string): string {
  if (parametersJson === undefined) return emptySchema;
  const schema = parseJson(parametersJson);
  if (!isObject(schema)) throw new EngineError("bad_schema", `'${param}' is not a JSON object.`, { param });
  if (Object.keys(schema).length === 0) return emptySchema;
  return Object.hasOwn(schema, "type") ? parametersJson : `{"type":"object",${parametersJson.trimStart().slice(1)}`;
}

const choiceTypes = { none: "none", auto: "auto", required: "any", named: "tool" } as const;

/** `tool_choice` as JSON; null if the server's own default applies: `auto`, with parallel calls. */
function toolChoiceJson(choice: ToolChoiceSpec, isParallel: boolean): string | null {
  if (choice.mode === "auto" && isParallel) return null;
  return new JsonObject()
    .text("type", choiceTypes[choice.mode])
    .text("name", choice.mode === "named" ? choice.name : undefined)
    .add("disable_parallel_tool_use", isParallel || choice.mode === "none" ? null : "true")
    .toString();
}
