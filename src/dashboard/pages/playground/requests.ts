/** Requests of the playground: as contract messages, which the page sends, and in OpenAI's format, which the copied code sends. */
import type { ChatCompletionParamsJson, MessageJson, ToolJson } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionParamsJson } from "../../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParamsJson } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import type { Message } from "./answers.js";

export interface ChatRequest {
  readonly kind: "chat";
  readonly params: ChatCompletionParamsJson;
  readonly openai: Readonly<Record<string, unknown>>;
}

export interface CompletionRequest {
  readonly kind: "completion";
  readonly params: CompletionParamsJson;
  readonly openai: Readonly<Record<string, unknown>>;
}

export interface EmbeddingRequest {
  readonly kind: "embeddings";
  readonly params: EmbeddingParamsJson;
  readonly openai: Readonly<Record<string, unknown>>;
}

export type PlaygroundRequest = ChatRequest | CompletionRequest | EmbeddingRequest;

/** Throws if a setting is invalid. */
export function chatRequest(model: string, settings: Settings, messages: readonly Message[]): ChatRequest {
  const sampling = samplingOf(settings);
  const tools = toolsOf(settings);
  const { system } = settings;
  const systemParts = system === "" ? [] : [{ text: system }];
  return {
    kind: "chat",
    params: {
      model,
      messages: [
        ...systemParts.map((part): MessageJson => ({ role: "ROLE_SYSTEM", content: [part] })),
        ...messages.map(contractMessage),
      ],
      ...sampling,
      ...(tools.length === 0 ? {} : { tools: tools.map(contractTool) }),
    },
    openai: {
      model,
      messages: [...systemParts.map(({ text }) => ({ role: "system", content: text })), ...messages.map(openAiMessage)],
      ...openAiSampling(sampling),
      ...(tools.length === 0 ? {} : { tools }),
      stream: true,
    },
  };
}

/** Throws if a setting is invalid. */
export function completionRequest(model: string, settings: Settings, prompt: string): CompletionRequest {
  const sampling = samplingOf(settings);
  return {
    kind: "completion",
    params: { model, prompt: [prompt], ...sampling },
    openai: { model, prompt, ...openAiSampling(sampling), stream: true },
  };
}

/** Embeds each line that is not empty. */
export function embeddingRequest(model: string, text: string): EmbeddingRequest {
  const input = text.split("\n").filter((line) => line.trim() !== "");
  return { kind: "embeddings", params: { model, input }, openai: { model, input } };
}

const roles = { user: "ROLE_USER", assistant: "ROLE_ASSISTANT", tool: "ROLE_TOOL" } as const;

function contractMessage({ role, text, calls, callId }: Message): MessageJson {
  return {
    role: roles[role],
    ...(text === "" && calls.length > 0 ? {} : { content: [{ text }] }),
    ...(calls.length === 0
      ? {}
      : { toolCalls: calls.map(({ id, name, argumentsJson }) => ({ id, function: { name, argumentsJson } })) }),
    ...(callId === "" ? {} : { toolCallId: callId }),
  };
}

function openAiMessage({ role, text, calls, callId }: Message): Readonly<Record<string, unknown>> {
  return {
    role,
    content: text === "" && calls.length > 0 ? null : text,
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ id, name, argumentsJson }) => ({
            id,
            type: "function",
            function: { name, arguments: argumentsJson },
          })),
        }),
    ...(callId === "" ? {} : { tool_call_id: callId }),
  };
}

function openAiSampling({ temperature, topP, maxTokens, stop }: Sampling): Readonly<Record<string, unknown>> {
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(stop === undefined ? {} : { stop }),
  };
}

/** Settings as typed; empty values are not sent, so the model's default applies. */
export interface Settings {
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly maxTokens: string;
  /** One sequence per line. */
  readonly stop: string;
  /** JSON in OpenAI's format: `[{"type":"function","function":{…}}]`. */
  readonly tools: string;
}

export const noSettings: Settings = { system: "", temperature: "", topP: "", maxTokens: "256", stop: "", tools: "" };

/** Properties of the chat and completion forms. */
export interface ModeProps {
  readonly model: string;
  readonly settings: Settings;
}

/** Sampling parameters of chat and completions; absent if nothing was typed. */
export interface Sampling {
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxTokens?: number;
  readonly stop?: string[];
}

/** Throws if the text is invalid. */
export function samplingOf({ temperature, topP, maxTokens, stop }: Settings): Sampling {
  const stops = stop.split("\n").filter((line) => line !== "");
  return {
    ...numberIn("temperature", "Temperature", temperature),
    ...numberIn("topP", "Top P", topP),
    ...numberIn("maxTokens", "Max tokens", maxTokens),
    ...(stops.length === 0 ? {} : { stop: stops }),
  };
}

function numberIn<K extends string>(key: K, label: string, text: string): Partial<Record<K, number>> {
  if (text.trim() === "") return {};
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`${label} must be a number.`);
  return { [key]: value } as Record<K, number>;
}

/** A tool in OpenAI's format. */
export interface OpenAiTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters?: unknown;
    readonly strict?: boolean;
  };
}

const toolsFormat = 'Tools must be a JSON array of OpenAI tools: [{"type":"function","function":{"name":"…"}}].';

/** Throws if the text is invalid. */
export function toolsOf({ tools }: Settings): readonly OpenAiTool[] {
  if (tools.trim() === "") return [];
  let list: unknown;
  try {
    list = JSON.parse(tools);
  } catch (cause) {
    throw new Error(`Tools are not valid JSON: ${cause instanceof Error ? cause.message : ""}`, { cause });
  }
  if (Array.isArray(list) && list.every(isTool)) return list;
  throw new Error(toolsFormat);
}

function isTool(value: unknown): value is OpenAiTool {
  const called = (value as { function?: { name?: unknown } } | null)?.function;
  return typeof called?.name === "string";
}

/** The tool as a contract message. */
export function contractTool({ function: definition }: OpenAiTool): ToolJson {
  const { name, description, parameters, strict } = definition;
  return {
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      ...(parameters === undefined ? {} : { parametersJson: JSON.stringify(parameters) }),
      ...(strict === undefined ? {} : { strict }),
    },
  };
}
