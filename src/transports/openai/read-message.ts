import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ContentPartSchema,
  type Message,
  MessageSchema,
  Role,
  type ToolCallSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/service-error.js";
import { type JsonObject, missingField, unknownValue } from "./json-object.js";
import { readContent } from "./read-content.js";

type ToolCallInit = MessageInitShape<typeof ToolCallSchema>;
type ContentInit = MessageInitShape<typeof ContentPartSchema>;

const roles: ReadonlyMap<string, Role> = new Map([
  ["developer", Role.DEVELOPER],
  ["system", Role.SYSTEM],
  ["user", Role.USER],
  ["assistant", Role.ASSISTANT],
  ["tool", Role.TOOL],
  ["function", Role.FUNCTION],
]);

/** The conversation. Who may follow whom, and which ids belong together, is for the core to say. */
export function readMessages(body: JsonObject): Message[] {
  const messages = body.objects("messages");
  if (messages === undefined) throw missingField("messages");
  /** The legacy call that the next message may answer. */
  let openCall: ToolCallInit | undefined;
  return messages.map((message, i) => {
    const role = readRole(message);
    const legacyCall = role === Role.ASSISTANT ? readLegacyCall(message, i) : undefined;
    const answered = role === Role.FUNCTION ? openCall : undefined;
    openCall = legacyCall;
    const toolCalls = readToolCalls(message);
    return create(MessageSchema, {
      // A legacy call and its result are the same thing as a tool call and its result, without an id.
      role: answered === undefined ? role : Role.TOOL,
      content: readMessageContent(message, role),
      name: message.string("name"),
      toolCalls: legacyCall === undefined ? toolCalls : [...toolCalls, legacyCall],
      toolCallId: answered === undefined ? message.string("tool_call_id") : answered.id,
    });
  });
}

function readRole(message: JsonObject): Role {
  const name = message.requiredString("role");
  const role = roles.get(name);
  if (role === undefined) throw unknownValue(message.pathOf("role"), name, [...roles.keys()]);
  return role;
}

/** SDKs hand an answer back as the next message, with what was refused in a field of its own. */
function readMessageContent(message: JsonObject, role: Role): ContentInit[] {
  const content = readContent(message);
  const refusal = role === Role.ASSISTANT ? message.string("refusal") : undefined;
  return refusal === undefined ? content : [...content, { part: { case: "refusal", value: refusal } }];
}

function readToolCalls(message: JsonObject): ToolCallInit[] {
  return (message.objects("tool_calls") ?? []).map((call) => {
    const type = call.requiredString("type");
    if (type === "custom") {
      throw new ServiceError("unsupported_value", `Unsupported value 'custom' for '${call.pathOf("type")}'.`, {
        param: call.pathOf("type"),
      });
    }
    if (type !== "function") throw unknownValue(call.pathOf("type"), type, ["function"]);
    return { id: call.requiredString("id"), function: readFunctionCall(call.requiredObject("function")) };
  });
}

function readLegacyCall(message: JsonObject, index: number): ToolCallInit | undefined {
  const call = message.object("function_call");
  return call === undefined ? undefined : { id: `call_legacy_${index}`, function: readFunctionCall(call) };
}

/** Arguments stay text: they are the model's own words and need not be JSON (MSG-6). */
function readFunctionCall(call: JsonObject) {
  return { name: call.requiredString("name"), argumentsJson: call.requiredString("arguments") };
}
