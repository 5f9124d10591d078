import type {
  AssistantMessage,
  ChatChoice,
  ChatCompletion,
  ToolCall,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { JsonText } from "../../lib/json-text.js";
import { rememberLast } from "../../lib/remember-last.js";
import { chatLogprobsToJson } from "./write-logprobs.js";
import { usageJson } from "./write-usage.js";

/** Most answers were created in the same second as the one before. */
const digitsOf = rememberLast((number: bigint) => String(number));

/**
 * The JSON of a whole chat completion. What is absent, null or empty here is part of the interface (RESP-*). Put
 * together by hand, as the chunks of a stream are: objects made only to be printed would double what an answer costs.
 */
export function chatCompletionJson(completion: ChatCompletion): JsonText {
  const { usage, serviceTier: tier, systemFingerprint: fingerprint } = completion;
  const json = new JsonText();
  // The id and the reasons of choices are words of ours.
  json.add(`{"id":"${completion.id}","object":"chat.completion","created":${digitsOf(completion.created)},"model":`);
  json.addString(completion.model).add(',"choices":[');
  for (const [i, choice] of completion.choices.entries()) addChoice(i === 0 ? json : json.add(","), choice);
  json.add(usage === undefined ? "]" : `],"usage":${usageJson(usage)}`);
  if (tier !== undefined) json.add(',"service_tier":').addString(tier);
  if (fingerprint !== "") json.add(',"system_fingerprint":').addString(fingerprint);
  return json.add("}");
}

function addChoice(json: JsonText, { index, message, logprobs, finishReason }: ChatChoice): void {
  json.add(`{"index":${index},"message":`);
  addMessage(json, message);
  json.add(',"logprobs":');
  if (logprobs === undefined) json.add("null");
  else json.addUnknown(JSON.stringify(chatLogprobsToJson(logprobs)));
  json.add(`,"finish_reason":"${finishReason}"}`);
}

function addMessage(json: JsonText, message: AssistantMessage | undefined): void {
  const reasoning = message?.reasoningContent;
  const calls = message?.toolCalls ?? [];
  json.add('{"role":"assistant","content":');
  addStringOrNull(json, message?.content);
  json.add(',"refusal":');
  addStringOrNull(json, message?.refusal);
  if (reasoning !== undefined) json.add(',"reasoning_content":').addString(reasoning);
  if (calls.length > 0) json.add(',"tool_calls":').addUnknown(JSON.stringify(calls.map(toolCallToJson)));
  json.add("}");
}

function addStringOrNull(json: JsonText, text: string | undefined): void {
  if (text === undefined) json.add("null");
  else json.addString(text);
}

function toolCallToJson(call: ToolCall): object {
  return {
    id: call.id,
    type: "function",
    function: { name: call.function?.name ?? "", arguments: call.function?.argumentsJson || "{}" },
  };
}
