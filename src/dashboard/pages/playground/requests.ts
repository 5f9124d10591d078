/** What is asked, in the form of the contract, which the page sends, and in OpenAI's, which the copied examples send. */
import type { ChatCompletionParamsJson, MessageJson } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionParamsJson } from "../../../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingParamsJson } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import { contractTool, type Sampling, type Settings, samplingOf, toolsOf } from "./settings.js";
import type { Turn } from "./transcript.js";

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

/** Throws what cannot be read of the settings. */
export function chatRequest(model: string, settings: Settings, turns: readonly Turn[]): ChatRequest {
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
        ...turns.map(contractMessage),
      ],
      ...sampling,
      ...(tools.length === 0 ? {} : { tools: tools.map(contractTool) }),
    },
    openai: {
      model,
      messages: [...systemParts.map(({ text }) => ({ role: "system", content: text })), ...turns.map(openAiMessage)],
      ...openAiSampling(sampling),
      ...(tools.length === 0 ? {} : { tools }),
      stream: true,
    },
  };
}

/** Throws what cannot be read of the settings. */
export function completionRequest(model: string, settings: Settings, prompt: string): CompletionRequest {
  const sampling = samplingOf(settings);
  return {
    kind: "completion",
    params: { model, prompt: [prompt], ...sampling },
    openai: { model, prompt, ...openAiSampling(sampling), stream: true },
  };
}

/** One vector per line that is not empty. */
export function embeddingRequest(model: string, text: string): EmbeddingRequest {
  const input = text.split("\n").filter((line) => line.trim() !== "");
  return { kind: "embeddings", params: { model, input }, openai: { model, input } };
}

const roles = { user: "ROLE_USER", assistant: "ROLE_ASSISTANT", tool: "ROLE_TOOL" } as const;

function contractMessage({ role, text, calls, callId }: Turn): MessageJson {
  return {
    role: roles[role],
    ...(text === "" && calls.length > 0 ? {} : { content: [{ text }] }),
    ...(calls.length === 0
      ? {}
      : { toolCalls: calls.map(({ id, name, argumentsJson }) => ({ id, function: { name, argumentsJson } })) }),
    ...(callId === "" ? {} : { toolCallId: callId }),
  };
}

function openAiMessage({ role, text, calls, callId }: Turn): Readonly<Record<string, unknown>> {
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
