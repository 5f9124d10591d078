import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ContentPart,
  ContentPartSchema,
  type Message,
  Role,
  type ToolCall,
  ToolCallSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { refuse } from "../../domain/call/service-error.js";
import { type JsonObject, missingField, unknownValue, wrongType } from "../http/json-object.js";

const roles: ReadonlyMap<string, Role> = new Map([
  ["developer", Role.DEVELOPER],
  ["system", Role.SYSTEM],
  ["user", Role.USER],
  ["assistant", Role.ASSISTANT],
  ["tool", Role.TOOL],
  ["function", Role.FUNCTION],
]);

/** Reads the conversation. The core checks the order of roles and the ids of tool calls. */
export function readMessages(body: JsonObject): Message[] {
  const messages = body.objects("messages") ?? missingField("messages");
  /** The legacy call that the next message may answer. */
  let openCall: ToolCall | undefined;
  return messages.map((message, i) => {
    const role = readRole(message);
    const legacyCall = role === Role.ASSISTANT ? readLegacyCall(message, i) : undefined;
    const answered = role === Role.FUNCTION ? openCall : undefined;
    openCall = legacyCall;
    const toolCalls = readToolCalls(message);
    // A literal: a conversation has many messages, and `create` would visit every field of each.
    const result: Message = {
      $typeName: "unified.inference.v1.Message",
      // A legacy function call and its result become a tool call and its result, which need ids.
      role: answered === undefined ? role : Role.TOOL,
      content: readMessageContent(message, role),
      toolCalls: legacyCall === undefined ? toolCalls : [...toolCalls, legacyCall],
    };
    const name = message.string("name");
    const toolCallId = answered === undefined ? message.string("tool_call_id") : answered.id;
    if (name !== undefined) result.name = name;
    if (toolCallId !== undefined) result.toolCallId = toolCallId;
    return result;
  });
}

function readRole(message: JsonObject): Role {
  const name = message.requiredString("role");
  const role = roles.get(name);
  if (role === undefined) unknownValue(message.pathOf("role"), name, [...roles.keys()]);
  return role;
}

/** Reads the content and, of an assistant's message, the `refusal`: SDKs send an answer back with all its fields. */
function readMessageContent(message: JsonObject, role: Role): ContentPart[] {
  const content = readContent(message);
  const refusal = role === Role.ASSISTANT ? message.string("refusal") : undefined;
  return refusal === undefined
    ? content
    : [...content, create(ContentPartSchema, { part: { case: "refusal", value: refusal } })];
}

function readToolCalls(message: JsonObject): ToolCall[] {
  return (message.objects("tool_calls") ?? []).map((call) => {
    const type = call.requiredString("type");
    const path = call.pathOf("type");
    if (type === "custom") refuse("unsupported_value", path, `Unsupported value 'custom' for '${path}'.`);
    if (type !== "function") unknownValue(path, type, ["function"]);
    return create(ToolCallSchema, {
      id: call.requiredString("id"),
      function: readFunctionCall(call.requiredObject("function")),
    });
  });
}

function readLegacyCall(message: JsonObject, index: number): ToolCall | undefined {
  const call = message.object("function_call");
  if (call === undefined) return undefined;
  return create(ToolCallSchema, { id: `call_legacy_${index}`, function: readFunctionCall(call) });
}

/** Keeps arguments as text, because the model may have written invalid JSON (MSG-6). */
function readFunctionCall(call: JsonObject) {
  return { name: call.requiredString("name"), argumentsJson: call.requiredString("arguments") };
}

type ContentInit = MessageInitShape<typeof ContentPartSchema>;

/** Reads the content of a message. A text becomes one part; absent content becomes an empty list. */
export function readContent(message: JsonObject): ContentPart[] {
  const content = message.value("content");
  if (content === undefined) return [];
  if (typeof content === "string") return [textPart(content)];
  const path = message.pathOf("content");
  if (!Array.isArray(content)) wrongType(path, "a string or an array of parts", content);
  const parts = message.objects("content") ?? [];
  if (parts.length === 0) {
    // Refused here because protobuf cannot distinguish an empty list from absent content, which tool calls allow.
    refuse("empty_array", path, `Invalid '${path}': at least 1 part is needed, but the array is empty.`);
  }
  return parts.map((part) => create(ContentPartSchema, { part: readPart(part) }));
}

/** A literal, not `create`, for speed: nearly every message is one text. */
function textPart(text: string): ContentPart {
  return { $typeName: "unified.inference.v1.ContentPart", part: { case: "text", value: text } };
}

const partTypes = ["text", "image_url", "input_audio", "file", "refusal"];

function readPart(part: JsonObject): NonNullable<ContentInit["part"]> {
  const type = part.requiredString("type");
  switch (type) {
    case "text":
      return { case: "text", value: part.requiredString("text") };
    case "refusal":
      return { case: "refusal", value: part.requiredString("refusal") };
    case "image_url": {
      const image = part.requiredObject("image_url");
      return { case: "imageUrl", value: { url: image.requiredString("url"), detail: image.string("detail") } };
    }
    case "input_audio": {
      const audio = part.requiredObject("input_audio");
      return {
        case: "inputAudio",
        value: { data: audio.requiredString("data"), format: audio.requiredString("format") },
      };
    }
    case "file": {
      const file = part.requiredObject("file");
      return {
        case: "file",
        value: {
          filename: file.string("filename"),
          fileData: file.string("file_data"),
          fileId: file.string("file_id"),
        },
      };
    }
    default:
      return unknownValue(part.pathOf("type"), type, partTypes);
  }
}
