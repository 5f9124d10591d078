import type {
  AssistantMessage,
  ChatChoice,
  ChatCompletion,
  ToolCall,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { jsonString } from "../../lib/json-string.js";
import { chatLogprobsToJson } from "./write-logprobs.js";
import { usageJson } from "./write-usage.js";

/**
 * The JSON of a whole chat completion. What is absent, null or empty here is part of the interface (RESP-*). Put
 * together by hand, as the chunks of a stream are: objects made only to be printed would double what an answer costs.
 */
export function chatCompletionJson(completion: ChatCompletion): string {
  const { usage, serviceTier: tier, systemFingerprint: fingerprint } = completion;
  return (
    `{"id":${jsonString(completion.id)},"object":"chat.completion","created":${completion.created}` +
    `,"model":${jsonString(completion.model)},"choices":[${completion.choices.map(choiceJson).join(",")}]` +
    (usage === undefined ? "" : `,"usage":${usageJson(usage)}`) +
    (tier === undefined ? "" : `,"service_tier":${jsonString(tier)}`) +
    (fingerprint === "" ? "" : `,"system_fingerprint":${jsonString(fingerprint)}`) +
    "}"
  );
}

function choiceJson({ index, message, logprobs, finishReason }: ChatChoice): string {
  const logprobsJson = logprobs === undefined ? "null" : JSON.stringify(chatLogprobsToJson(logprobs));
  return (
    `{"index":${index},"message":${messageJson(message)},"logprobs":${logprobsJson}` +
    `,"finish_reason":${jsonString(finishReason)}}`
  );
}

function messageJson(message: AssistantMessage | undefined): string {
  const reasoning = message?.reasoningContent;
  const calls = message?.toolCalls ?? [];
  return (
    `{"role":"assistant","content":${stringOrNull(message?.content)},"refusal":${stringOrNull(message?.refusal)}` +
    (reasoning === undefined ? "" : `,"reasoning_content":${jsonString(reasoning)}`) +
    (calls.length === 0 ? "" : `,"tool_calls":${JSON.stringify(calls.map(toolCallToJson))}`) +
    "}"
  );
}

function stringOrNull(text: string | undefined): string {
  return text === undefined ? "null" : jsonString(text);
}

function toolCallToJson(call: ToolCall): object {
  return {
    id: call.id,
    type: "function",
    function: { name: call.function?.name ?? "", arguments: call.function?.argumentsJson || "{}" },
  };
}
