/** Converts a chat to requests of the service's other APIs: OpenAI's responses and Anthropic's messages. */
import type { Call, Message } from "./answers.js";

/** A tool in the form of chat completions. */
export interface OpenAiTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters?: unknown;
    readonly strict?: boolean;
  };
}

/** A chat, independent of the API. */
export interface ChatParts {
  readonly model: string;
  /** The system prompt; empty if there is none. */
  readonly system: string;
  readonly messages: readonly Message[];
  /** Sampling parameters by their names in chat completions. */
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly tools: readonly OpenAiTool[];
}

export interface ApiRequest {
  readonly body: Readonly<Record<string, unknown>>;
  /** Parameters of the chat, by their names in chat completions, that the API does not have. */
  readonly omitted: readonly string[];
}

const responsesNames = { temperature: "temperature", top_p: "top_p", max_tokens: "max_output_tokens" };

export function responsesRequest({ model, system, messages, sampling, tools }: ChatParts): ApiRequest {
  const { fields, omitted } = renamed(sampling, responsesNames);
  return {
    body: {
      model,
      ...(system === "" ? {} : { instructions: system }),
      input: messages.flatMap(responseItems),
      ...fields,
      ...(tools.length === 0 ? {} : { tools: tools.map((tool) => ({ type: "function", ...tool.function })) }),
      stream: true,
    },
    omitted,
  };
}

/** A message with text and tool calls becomes several items. */
function responseItems({ role, text, calls, callId }: Message): readonly object[] {
  if (role === "tool") return [{ type: "function_call_output", call_id: callId, output: text }];
  return [
    ...(text === "" && calls.length > 0 ? [] : [{ role, content: text }]),
    ...calls.map((call) => ({
      type: "function_call",
      call_id: call.id,
      name: call.name,
      arguments: call.argumentsJson,
    })),
  ];
}

const messagesNames = { temperature: "temperature", top_p: "top_p", max_tokens: "max_tokens", stop: "stop_sequences" };
/** Anthropic's API requires a maximum. */
const defaultMaxTokens = 1024;

export function messagesRequest({ model, system, messages, sampling, tools }: ChatParts): ApiRequest {
  const { fields, omitted } = renamed({ max_tokens: defaultMaxTokens, ...sampling }, messagesNames);
  return {
    body: {
      model,
      ...(system === "" ? {} : { system }),
      messages: anthropicMessages(messages),
      ...fields,
      ...(tools.length === 0 ? {} : { tools: tools.map(anthropicTool) }),
      stream: true,
    },
    omitted,
  };
}

/** Consecutive tool results become blocks of one user message. */
function anthropicMessages(messages: readonly Message[]): readonly object[] {
  const list: { role: string; content: string | object[] }[] = [];
  let results: object[] | null = null;
  for (const { role, text, calls, callId } of messages) {
    if (role === "tool") {
      if (results === null) {
        results = [];
        list.push({ role: "user", content: results });
      }
      results.push({ type: "tool_result", tool_use_id: callId, content: text });
      continue;
    }
    results = null;
    const blocks = [...(text === "" ? [] : [{ type: "text", text }]), ...calls.map(toolUse)];
    list.push({ role, content: calls.length === 0 ? text : blocks });
  }
  return list;
}

function toolUse({ id, name, argumentsJson }: Call): object {
  return { type: "tool_use", id, name, input: objectIn(argumentsJson) };
}

/** Parses a JSON object. Other text, such as the arguments of a truncated call, results in an empty object. */
function objectIn(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

function anthropicTool({ function: { name, description, parameters } }: OpenAiTool): object {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: parameters ?? { type: "object" },
  };
}

/** Renames parameters to the API's names, and lists those that the API does not have. */
function renamed(sampling: Readonly<Record<string, unknown>>, names: Readonly<Record<string, string>>) {
  const fields: Record<string, unknown> = {};
  const omitted: string[] = [];
  for (const [name, value] of Object.entries(sampling)) {
    const renamed = names[name];
    if (renamed === undefined) omitted.push(name);
    else fields[renamed] = value;
  }
  return { fields, omitted };
}
