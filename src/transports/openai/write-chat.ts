import type {
  AssistantMessage,
  ChatChoice,
  ChatChunkChoice,
  ChatCompletion,
  ChatDelta,
  ToolCall,
  ToolCallDelta,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Logprobs, TopLogprob } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import { JsonText, jsonString, rememberLast } from "../../lib/json-string.js";
import { type StreamFrames, sseDone, sseEventEnd, sseEventStart } from "../http/stream.js";

/** Converts `created` to text; the last result is kept, because successive answers are often created in the same second. */
const digitsOf = rememberLast((number: bigint) => String(number));

/**
 * The JSON of a whole chat completion. Which fields are absent, null or empty is part of the interface (RESP-*). The text
 * is concatenated by hand: JSON.stringify, and the objects for it, would double the cost of an answer.
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

/** The writer of the events of one chat stream. */
export function chatFrames(includeUsage: boolean): ChunkFrames<ChatChunkChoice> {
  return new ChunkFrames("chat.completion.chunk", includeUsage, choiceJson, (index) => deltaJson(index, "{}"));
}

/** The JSON of a choice. Nearly all choices are plain text, whose JSON is concatenated by hand. */
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

/** A delta has only the keys that change (STRM-17). The delta with the role always has a content, possibly null (STRM-2). */
function deltaToJson(delta: ChatDelta): object {
  return {
    ...(delta.role !== undefined && { role: "assistant", content: null }),
    ...(delta.content !== undefined && { content: delta.content }),
    ...(delta.refusal !== undefined && { refusal: delta.refusal }),
    ...(delta.reasoningContent !== undefined && { reasoning_content: delta.reasoningContent }),
    ...(delta.toolCalls.length > 0 && { tool_calls: delta.toolCalls.map(toolCallDeltaToJson) }),
  };
}

/** Only the first delta of a call has id, type and name, because clients concatenate repeated values (STRM-7). */
function toolCallDeltaToJson(call: ToolCallDelta): object {
  const args = call.argumentsJson ?? "";
  if (call.id === undefined) return { index: call.index, function: { arguments: args } };
  return { index: call.index, id: call.id, type: "function", function: { name: call.name ?? "", arguments: args } };
}

/** Fields that chunks of chat and of text completions share. */
interface AnyChunk<C> {
  readonly id: string;
  readonly created: bigint;
  readonly model: string;
  readonly systemFingerprint: string;
  readonly serviceTier?: string | undefined;
  /** At most one choice; the chunk with the usage has none. */
  readonly choices: readonly C[];
  readonly usage?: Usage | undefined;
}

/**
 * Turns the chunks of one stream into SSE events. The JSON before and after the choice is equal in all chunks and is built
 * once, so that a token costs only the escaping of its text and two concatenations (performance 6).
 */
export class ChunkFrames<C extends { readonly index: number; readonly finishReason?: string | undefined }>
  implements StreamFrames<AnyChunk<C>>
{
  readonly #object: string;
  readonly #includeUsage: boolean;
  readonly #choiceJson: (choice: C) => string;
  readonly #emptyJson: (index: number) => string;
  /** JSON of a chunk up to and with the opening bracket of `choices`; empty before the first chunk. */
  #prefix = "";
  /** JSON from the closing bracket of `choices` on. With usage requested, it is null in all but the last (STRM-10, STRM-11). */
  readonly #suffix: string;
  /** Index of an unfinished choice; undefined before the first chunk and after a finish. */
  #openChoice: number | undefined;

  /** `emptyJson` returns the JSON of a choice without text. */
  constructor(
    object: string,
    includeUsage: boolean,
    choiceJson: (choice: C) => string,
    emptyJson: (index: number) => string,
  ) {
    this.#object = object;
    this.#includeUsage = includeUsage;
    this.#choiceJson = choiceJson;
    this.#emptyJson = emptyJson;
    this.#suffix = `]${includeUsage ? ',"usage":null' : ""}}${sseEventEnd}`;
  }

  /** The event of a chunk. Empty for the usage, which always ends the core's stream, if it was not requested. */
  frame(chunk: AnyChunk<C>): string {
    if (this.#prefix === "") this.#prefix = prefixOf(chunk, this.#object);
    const [choice] = chunk.choices;
    if (choice === undefined) {
      if (!this.#includeUsage || chunk.usage === undefined) return "";
      return `${this.#prefix}],"usage":${usageJson(chunk.usage)}}${sseEventEnd}`;
    }
    this.#openChoice = choice.finishReason === undefined ? choice.index : undefined;
    return this.#prefix + this.#choiceJson(choice) + this.#suffix;
  }

  end(): string {
    return sseDone;
  }

  /** An empty chunk, for clients that need events instead of comments (SSE-9); null when none can be sent. */
  keepAlive(): string | null {
    return this.#openChoice === undefined ? null : this.#prefix + this.#emptyJson(this.#openChoice) + this.#suffix;
  }
}

function prefixOf<C>(chunk: AnyChunk<C>, object: string): string {
  const head = JSON.stringify({
    id: chunk.id,
    object,
    created: Number(chunk.created),
    model: chunk.model,
    ...(chunk.serviceTier !== undefined && { service_tier: chunk.serviceTier }),
    ...(chunk.systemFingerprint !== "" && { system_fingerprint: chunk.systemFingerprint }),
  });
  return `${sseEventStart}${head.slice(0, -1)},"choices":[`;
}

/** The JSON of the usage of a completion, with details where the core reports them. */
export function usageJson(usage: Usage): string {
  const { promptTokensDetails: prompt, completionTokensDetails: completion } = usage;
  return (
    `{"prompt_tokens":${usage.promptTokens},"completion_tokens":${usage.completionTokens}` +
    `,"total_tokens":${usage.totalTokens}` +
    (prompt === undefined ? "" : `,"prompt_tokens_details":{"cached_tokens":${prompt.cachedTokens}}`) +
    (completion === undefined
      ? ""
      : `,"completion_tokens_details":{"reasoning_tokens":${completion.reasoningTokens}}`) +
    "}"
  );
}

/** Log probabilities in the form of chat; every item has all keys. Null when none were requested. */
function chatLogprobsToJson(logprobs: Logprobs | undefined): object | null {
  if (logprobs === undefined) return null;
  return {
    content: logprobs.content.map((token) => ({
      ...tokenToJson(token),
      top_logprobs: token.topLogprobs.map(tokenToJson),
    })),
    refusal: null,
  };
}

function tokenToJson({ token, logprob, utf8Bytes }: Omit<TopLogprob, "$typeName">): object {
  return { token, logprob: finite(logprob), bytes: utf8Bytes === undefined ? null : [...utf8Bytes] };
}

/** OpenAI's replacement for minus infinity, which JSON cannot express. Clients reject null there (RESP-9). */
const never = -9999;

export function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : never;
}
