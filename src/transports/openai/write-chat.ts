import type {
  AssistantMessage,
  ChatChoice,
  ChatChunkChoice,
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ToolCall,
  ToolCallDelta,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { JsonText, jsonString, rememberLast } from "../../lib/json-string.js";
import { type ChunkFrames, chatLogprobsToJson, FrameTemplate, usageJson } from "./answer-parts.js";

/** Most answers were created in the same second as the one before. */
const digitsOf = rememberLast((number: bigint) => String(number));

/**
 * The JSON of a whole chat completion. Which fields are absent, null or empty is part of the interface (RESP-*).
 * Concatenated by hand, as the chunks of a stream are: objects for JSON.stringify would double the cost of an answer.
 */
export function chatCompletionJson(completion: ChatCompletion): JsonText {
  const { usage, serviceTier: tier, systemFingerprint: fingerprint } = completion;
  const json = new JsonText();
  // Ids and finish reasons never need JSON escaping.
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

/** The frames of one chat stream. */
export class ChatFrames implements ChunkFrames<ChatCompletionChunk> {
  readonly #includeUsage: boolean;
  #template: FrameTemplate | undefined;
  /** Index of an unfinished choice; undefined before the first chunk and after a finish. */
  #openChoice: number | undefined;

  constructor(includeUsage: boolean) {
    this.#includeUsage = includeUsage;
  }

  frame(chunk: ChatCompletionChunk): string | null {
    this.#template ??= new FrameTemplate(chunk, "chat.completion.chunk", this.#includeUsage);
    const [choice] = chunk.choices;
    if (choice === undefined) return this.#template.usage(chunk.usage);
    this.#openChoice = choice.finishReason === undefined ? choice.index : undefined;
    return this.#template.choice(choiceJson(choice));
  }

  keepAlive(): string | null {
    if (this.#template === undefined || this.#openChoice === undefined) return null;
    return this.#template.choice(deltaJson(this.#openChoice, "{}"));
  }
}

/** Nearly all chunks are plain text, which is concatenated by hand. */
function choiceJson(choice: ChatChunkChoice): string {
  const { delta } = choice;
  if (delta === undefined || !isPlainText(delta) || choice.logprobs !== undefined) {
    return JSON.stringify({
      index: choice.index,
      delta: delta === undefined ? {} : deltaToJson(delta),
      logprobs: chatLogprobsToJson(choice.logprobs),
      finish_reason: choice.finishReason ?? null,
    });
  }
  return deltaJson(choice.index, `{"content":${jsonString(delta.content)}}`, choice.finishReason);
}

function isPlainText(delta: ChatDelta): delta is ChatDelta & { content: string } {
  return (
    delta.content !== undefined &&
    delta.role === undefined &&
    delta.refusal === undefined &&
    delta.reasoningContent === undefined &&
    delta.toolCalls.length === 0
  );
}

function deltaJson(index: number, delta: string, finishReason?: string): string {
  const reason = finishReason === undefined ? "null" : jsonString(finishReason);
  return `{"index":${index},"delta":${delta},"logprobs":null,"finish_reason":${reason}}`;
}

/** Keys without news are absent (STRM-17), except the content of a first delta that is not text (STRM-2). */
function deltaToJson(delta: ChatDelta): object {
  return {
    ...(delta.role !== undefined && { role: "assistant", content: null }),
    ...(delta.content !== undefined && { content: delta.content }),
    ...(delta.refusal !== undefined && { refusal: delta.refusal }),
    ...(delta.reasoningContent !== undefined && { reasoning_content: delta.reasoningContent }),
    ...(delta.toolCalls.length > 0 && { tool_calls: delta.toolCalls.map(toolCallDeltaToJson) }),
  };
}

/** Id, type and name in the first delta of a call only: clients concatenate repeated values (STRM-7). */
function toolCallDeltaToJson(call: ToolCallDelta): object {
  const args = call.argumentsJson ?? "";
  if (call.id === undefined) return { index: call.index, function: { arguments: args } };
  return { index: call.index, id: call.id, type: "function", function: { name: call.name ?? "", arguments: args } };
}
