import type {
  AssistantMessage,
  ChatChoice,
  ChatCompletion,
  ToolCall,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { chatLogprobsToJson } from "./write-logprobs.js";
import { usageToJson } from "./write-usage.js";

/** A whole chat completion. What is absent, null or empty here is part of the interface (RESP-*). */
export function chatCompletionToJson(completion: ChatCompletion): object {
  return {
    id: completion.id,
    object: "chat.completion",
    created: Number(completion.created),
    model: completion.model,
    choices: completion.choices.map(choiceToJson),
    ...(completion.usage && { usage: usageToJson(completion.usage) }),
    ...(completion.serviceTier !== undefined && { service_tier: completion.serviceTier }),
    ...(completion.systemFingerprint !== "" && { system_fingerprint: completion.systemFingerprint }),
  };
}

function choiceToJson(choice: ChatChoice): object {
  return {
    index: choice.index,
    message: messageToJson(choice.message),
    logprobs: chatLogprobsToJson(choice.logprobs),
    finish_reason: choice.finishReason,
  };
}

function messageToJson(message: AssistantMessage | undefined): object {
  return {
    role: "assistant",
    content: message?.content ?? null,
    refusal: message?.refusal ?? null,
    ...(message?.reasoningContent !== undefined && { reasoning_content: message.reasoningContent }),
    ...(message !== undefined && message.toolCalls.length > 0 && { tool_calls: message.toolCalls.map(toolCallToJson) }),
  };
}

function toolCallToJson(call: ToolCall): object {
  return {
    id: call.id,
    type: "function",
    function: { name: call.function?.name ?? "", arguments: call.function?.argumentsJson || "{}" },
  };
}
