import type { ContentPart, Message, Tool, ToolCall } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { EngineError, type GenerateRequest } from "../../../domain/engine/engine.js";
import type { TemplateMessage, TemplateTool, TemplateToolCall } from "../protocol/protocol.js";

/** Values of `reasoning_effort` that disable thinking. */
const effortsWithoutThinking: ReadonlySet<string> = new Set(["none", "minimal"]);

/**
 * Messages in the form of templates: `developer` becomes `system`, `function` becomes `tool`, and text parts are joined
 * without a separator. Throws EngineError `unsupported` for parts that are not text.
 */
export function toTemplateMessages(messages: readonly Message[]): readonly TemplateMessage[] {
  return messages.map((message, i) => ({
    role: toTemplateRole(message.role),
    content: message.content.map((part, j) => textOf(part, `messages[${i}].content[${j}]`)).join(""),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.toolCalls.length === 0 ? {} : { tool_calls: message.toolCalls.map(toTemplateCall) }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
  }));
}

/** Throws EngineError `bad_schema` if the parameters are not a JSON object. */
export function toTemplateTools(tools: readonly Tool[]): readonly TemplateTool[] {
  return tools.map(({ function: definition }, i) => ({
    type: "function",
    function: {
      name: definition?.name ?? "",
      ...(definition?.description === undefined ? {} : { description: definition.description }),
      parameters: parametersOf(definition?.parametersJson, `tools[${i}].function.parameters`),
      strict: definition?.strict ?? false,
    },
  }));
}

/**
 * Variables of the template: `enable_thinking`, which `reasoning_effort` enables (CHAT-24), and those of the request's
 * `chat_template_kwargs`, which take precedence.
 */
export function templateVariables(
  request: Pick<GenerateRequest, "reasoningEffort" | "chatTemplateKwargsJson">,
): Readonly<Record<string, unknown>> {
  const { reasoningEffort: effort, chatTemplateKwargsJson: own } = request;
  return {
    enable_thinking: effort !== undefined && !effortsWithoutThinking.has(effort),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(own === undefined ? null : parsedObject(own)),
  };
}

function toTemplateRole(role: Role): TemplateMessage["role"] {
  switch (role) {
    case Role.SYSTEM:
    case Role.DEVELOPER:
      return "system";
    case Role.ASSISTANT:
      return "assistant";
    case Role.TOOL:
    case Role.FUNCTION:
      return "tool";
    default:
      return "user";
  }
}

function textOf({ part }: ContentPart, param: string): string {
  if (part.case === "text" || part.case === "refusal") return part.value;
  throw new EngineError("unsupported", `The model reads text only, but '${param}' is of another kind.`, { param });
}

function toTemplateCall({ id, function: call }: ToolCall): TemplateToolCall {
  const text = call?.argumentsJson ?? "";
  const args = text === "" ? {} : (parsedObject(text) ?? text);
  return { id, type: "function", function: { name: call?.name ?? "", arguments: args } };
}

function parametersOf(json: string | undefined, param: string): object {
  if (json === undefined) return { type: "object", properties: {} };
  const parameters = parsedObject(json);
  if (parameters === null) throw new EngineError("bad_schema", `'${param}' must be a JSON object.`, { param });
  return parameters;
}

/** The object in a JSON text; null if there is none. */
function parsedObject(json: string): object | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    // Callers send back text that a model wrote, which need not be JSON (MSG-6).
    return null;
  }
}
