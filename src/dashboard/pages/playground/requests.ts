/** Requests of the playground: as contract messages, which the page sends, and in OpenAI's format, which the copied code sends. */
import type { ChatCompletionParamsJson, MessageJson, ToolJson } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionParamsJson } from "../../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParamsJson } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import type { Message } from "./answers.js";
import type { ChatParts, OpenAiTool } from "./chat-apis.js";

export interface ChatRequest {
  readonly kind: "chat";
  readonly params: ChatCompletionParamsJson;
  readonly openai: Readonly<Record<string, unknown>>;
  /** The chat's parts, from which requests of other APIs are created. */
  readonly parts: ChatParts;
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
      ...sampling.contract,
      ...(tools.length === 0 ? {} : { tools: tools.map(contractTool) }),
    },
    openai: {
      model,
      messages: [...systemParts.map(({ text }) => ({ role: "system", content: text })), ...messages.map(openAiMessage)],
      ...sampling.openai,
      ...(tools.length === 0 ? {} : { tools }),
      stream: true,
    },
    parts: { model, system, messages, sampling: sampling.openai, tools },
  };
}

/** Throws if a setting is invalid. */
export function completionRequest(model: string, settings: Settings, prompt: string): CompletionRequest {
  const sampling = samplingOf(settings);
  return {
    kind: "completion",
    params: { model, prompt: [prompt], ...sampling.contract },
    openai: { model, prompt, ...sampling.openai, stream: true },
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

/** Settings that are numbers, with their names in OpenAI's format and in errors of the service. */
export const numberSettings = {
  temperature: { label: "Temperature", openai: "temperature", hint: "0 to 2" },
  topP: { label: "Top P", openai: "top_p", hint: "0 to 1" },
  maxTokens: { label: "Max tokens", openai: "max_tokens", hint: "Empty: the rest of the context" },
  frequencyPenalty: { label: "Frequency penalty", openai: "frequency_penalty", hint: "-2 to 2" },
  presencePenalty: { label: "Presence penalty", openai: "presence_penalty", hint: "-2 to 2" },
  seed: { label: "Seed", openai: "seed", hint: "A whole number" },
} as const;

export type NumberSetting = keyof typeof numberSettings;

const numberNames = Object.keys(numberSettings) as NumberSetting[];

/** Settings as typed; empty values are not sent, so the model's default applies. */
export interface Settings extends Readonly<Record<NumberSetting, string>> {
  readonly system: string;
  /** One sequence per line. */
  readonly stop: string;
  /** JSON in OpenAI's format: `[{"type":"function","function":{…}}]`. */
  readonly tools: string;
}

export const noSettings: Settings = {
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "1024",
  frequencyPenalty: "",
  presencePenalty: "",
  seed: "",
  stop: "",
  tools: "",
};

/** An invalid setting. */
class SettingError extends Error {
  override readonly name = "SettingError";
  /** The name of the setting, as in errors of the service. */
  readonly param: string;
  constructor(param: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.param = param;
  }
}

type Numbers = Readonly<Partial<Record<NumberSetting, number>>>;

/** Sampling parameters of chat and completions; absent if nothing was typed. Throws if a text is not a number. */
function samplingOf(settings: Settings) {
  const numbers: Numbers = Object.fromEntries(
    numberNames.filter((name) => settings[name].trim() !== "").map((name) => [name, numberIn(name, settings[name])]),
  );
  const stop = settings.stop.split("\n").filter((line) => line !== "");
  const stops = stop.length === 0 ? {} : { stop };
  const { seed, ...rest } = numbers;
  return {
    // Protobuf JSON writes 64-bit integers as strings.
    contract: { ...rest, ...stops, ...(seed === undefined ? {} : { seed: String(seed) }) },
    openai: {
      ...Object.fromEntries(
        Object.entries(numbers).map(([name, value]) => [numberSettings[name as NumberSetting].openai, value]),
      ),
      ...stops,
    },
  };
}

function numberIn(name: NumberSetting, text: string): number {
  const value = Number(text);
  const { label, openai } = numberSettings[name];
  if (Number.isNaN(value)) throw new SettingError(openai, `${label} must be a number.`);
  if (name === "seed" && !Number.isSafeInteger(value))
    throw new SettingError(openai, `${label} must be a whole number.`);
  return value;
}

const toolsFormat = 'Tools must be a JSON array of OpenAI tools: [{"type":"function","function":{"name":"…"}}].';

/** Throws if the text is invalid. */
export function toolsOf({ tools }: Settings): readonly OpenAiTool[] {
  if (tools.trim() === "") return [];
  let list: unknown;
  try {
    list = JSON.parse(tools);
  } catch (cause) {
    throw new SettingError("tools", `Tools are not valid JSON: ${cause instanceof Error ? cause.message : ""}`, {
      cause,
    });
  }
  if (Array.isArray(list) && list.every(isTool)) return list;
  throw new SettingError("tools", toolsFormat);
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
