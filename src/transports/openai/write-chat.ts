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
import type { CompletionLogprobs } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { Logprobs, TopLogprob } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import type { StreamAnswer } from "../../domain/call/call-context.js";
import { JsonText, jsonString, rememberLast } from "../../lib/json-string.js";
import type { Call, Exchange } from "../http/call.js";
import { SseWriter, sseDone, sseEvent, sseEventEnd, sseEventStart, sseKeepAliveComment } from "../http/sse.js";

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

/** Turns the chunks of one stream into SSE events. */
export interface ChunkFrames<C> {
  /** The event of a chunk; null when this stream leaves it out. */
  frame(chunk: C): string | null;
  /** An empty chunk, for clients that need events instead of comments (SSE-9); null when none can be sent. */
  keepAlive(): string | null;
}

/** Fields that chunks of chat and of text completions share. */
interface AnyChunk {
  readonly id: string;
  readonly created: bigint;
  readonly model: string;
  readonly systemFingerprint: string;
  readonly serviceTier?: string | undefined;
}

/**
 * The parts of an event that are equal in all chunks of a stream: everything around the choice. Built once per stream,
 * so that a token costs the escaping of its text and two concatenations (performance 6).
 */
export class FrameTemplate {
  readonly #includeUsage: boolean;
  /** Up to the opening bracket of `choices`, inclusive. */
  readonly #prefix: string;
  /** From the closing bracket on, for chunks without usage. */
  readonly #suffix: string;

  constructor(chunk: AnyChunk, object: string, includeUsage: boolean) {
    const head = JSON.stringify({
      id: chunk.id,
      object,
      created: Number(chunk.created),
      model: chunk.model,
      ...(chunk.serviceTier !== undefined && { service_tier: chunk.serviceTier }),
      ...(chunk.systemFingerprint !== "" && { system_fingerprint: chunk.systemFingerprint }),
    });
    this.#includeUsage = includeUsage;
    this.#prefix = `${sseEventStart}${head.slice(0, -1)},"choices":[`;
    this.#suffix = `]${includeUsage ? ',"usage":null' : ""}}${sseEventEnd}`;
  }

  /** With usage requested, every chunk but the last has `null` (STRM-10); else none has the key (STRM-11). */
  choice(choiceJson: string): string {
    return this.#prefix + choiceJson + this.#suffix;
  }

  /** The core always ends with the usage; it is written when it was requested. */
  usage(usage: Usage | undefined): string | null {
    if (!this.#includeUsage || usage === undefined) return null;
    return `${this.#prefix}],"usage":${usageJson(usage)}}${sseEventEnd}`;
  }
}

/** The JSON of a completion's tokens, with their parts where the core knows them. */
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

/** OpenAI's stand-in for "never": JSON has no infinity, and clients reject null in its place (RESP-9). */
const never = -9999;

/** Log probabilities in the form of chat; all keys on every item. Null when none were requested. */
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

/** Log probabilities in the form of text completions: four lists of equal length. */
export function completionLogprobsToJson(logprobs: CompletionLogprobs | undefined): object | null {
  if (logprobs === undefined) return null;
  return {
    tokens: logprobs.tokens,
    // Not a number: the first token of an echoed prompt has no probability (CMPL-8).
    token_logprobs: logprobs.tokenLogprobs.map((value) => (Number.isNaN(value) ? null : finite(value))),
    top_logprobs: logprobs.topLogprobs.map(({ logprobs: alternatives }, i) =>
      Number.isNaN(logprobs.tokenLogprobs[i])
        ? null
        : Object.fromEntries(Object.entries(alternatives).map(([token, value]) => [token, finite(value)])),
    ),
    text_offset: logprobs.textOffset,
  };
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : never;
}

/** What is sent on a silent stream (SSE-9). */
export type KeepAlive = "comment" | "chunk" | "off";

const eventStream: readonly string[] = [
  ...["content-type", "text/event-stream; charset=utf-8"],
  ...["cache-control", "no-cache"],
  ...["x-accel-buffering", "no"],
];

/**
 * Writes a committed answer as server-sent events. From here on a failure is an event in the stream, and the stream
 * then ends without its end marker (SERR-1, SERR-4).
 */
export async function streamAnswer<C extends object>(
  call: Call,
  exchange: Exchange,
  items: StreamAnswer<C>["items"],
  frames: ChunkFrames<C>,
  keepAlive: KeepAlive,
): Promise<void> {
  const { signal } = call;
  call.watch();
  exchange.res.writeHead(200, exchange.headers([...eventStream]));
  exchange.res.flushHeaders();
  const sse = new SseWriter(exchange.res, () => call.touched());
  if (keepAlive !== "off") {
    call.whenSilent(() => sse.keepAlive((keepAlive === "chunk" ? frames.keepAlive() : null) ?? sseKeepAliveComment));
  }
  try {
    for await (const item of items) {
      sse.write(frames.frame(item) ?? "");
      if (sse.isBehind) await sse.drained(signal);
      if (exchange.res.destroyed) return;
    }
    sse.end(sseDone);
  } catch (thrown) {
    sse.end(sseEvent(JSON.stringify(exchange.errorToJson(call.toError(thrown)))));
  }
}
