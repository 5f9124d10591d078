import type {
  AssistantMessage,
  ChatChunkChoice,
  ChatCompletion,
  ChatCompletionChunk,
  ToolCall,
  ToolCallDelta,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import type { StreamAnswer } from "../../domain/call/call-context.js";
import { isObject, JsonText, jsonString } from "../../lib/json-string.js";
import { type StreamFrames, sseEventEnd } from "../http/stream.js";

/** The JSON of a whole message (ANT-2, ANT-7). */
export function messageJson(completion: ChatCompletion): JsonText {
  const { id, model, choices, usage } = completion;
  const [choice] = choices;
  const json = new JsonText().add(`{"id":"${id}","type":"message","role":"assistant","model":`).addString(model);
  addContent(json.add(',"content":['), choice?.message);
  const hasRefusal = choice?.message?.refusal !== undefined;
  const stop = stopJson(choice?.finishReason ?? "", choice?.stopSequence, hasRefusal);
  json.add("],");
  if (choice?.stopSequence === undefined) json.add(stop);
  else json.addUnknown(stop);
  return json.add(`,"usage":${usageJson(usage)}}`);
}

/** Adds the blocks in the order in which a model produces them. An empty text gets no block. */
function addContent(json: JsonText, message: AssistantMessage | undefined): void {
  const { reasoningContent = "", content = "", refusal = "", toolCalls = [] } = message ?? {};
  let separator = "";
  const begin = (start: string): JsonText => {
    json.add(separator + start);
    separator = ",";
    return json;
  };
  if (reasoningContent !== "") {
    begin('{"type":"thinking","thinking":').addString(reasoningContent).add(',"signature":""}');
  }
  for (const text of [content, refusal]) if (text !== "") begin('{"type":"text","text":').addString(text).add("}");
  for (const call of toolCalls) {
    begin(`{"type":"tool_use","id":`)
      .addString(call.id)
      .add(',"name":')
      .addString(call.function?.name ?? "");
    json.add(',"input":').addUnknown(inputJson(call)).add("}");
  }
}

/** The arguments of a call, unchanged. Text that is not a JSON object, because it was cut or malformed, is put into one. */
function inputJson({ function: called }: ToolCall): string {
  const text = called?.argumentsJson ?? "";
  if (text.trim() === "") return "{}";
  try {
    if (isObject(JSON.parse(text))) return text;
  } catch {
    // Text that is not JSON is treated like JSON that is not an object.
  }
  return JSON.stringify({ invalid_json: text });
}

const stopReasons: ReadonlyMap<string, string> = new Map([
  ["stop", "end_turn"],
  ["length", "max_tokens"],
  ["tool_calls", "tool_use"],
  ["content_filter", "refusal"],
]);

/** `stop_reason` and `stop_sequence` (ANT-4). */
function stopJson(finishReason: string, stopSequence: string | undefined, hasRefusal: boolean): string {
  const bySequence = stopSequence !== undefined;
  const reason = bySequence ? "stop_sequence" : hasRefusal ? "refusal" : (stopReasons.get(finishReason) ?? "end_turn");
  return `"stop_reason":"${reason}","stop_sequence":${bySequence ? jsonString(stopSequence) : "null"}`;
}

/** Tokens that were read from the cache are not part of `input_tokens` (ANT-7). */
function promptJson(promptTokens: number, cachedTokens: number): string {
  return `"input_tokens":${promptTokens - cachedTokens},"cache_creation_input_tokens":0,"cache_read_input_tokens":${cachedTokens}`;
}

function usageJson(usage: Usage | undefined): string {
  const prompt = promptJson(usage?.promptTokens ?? 0, usage?.promptTokensDetails?.cachedTokens ?? 0);
  const thinking = usage?.completionTokensDetails?.reasoningTokens ?? 0;
  const details = thinking === 0 ? "" : `,"output_tokens_details":{"thinking_tokens":${thinking}}`;
  return `{${prompt},"output_tokens":${usage?.completionTokens ?? 0}${details}}`;
}

/** An event. Its data begins with a `type`, which is the event's name; `members` are the other members. */
function event(type: string, members: string): string {
  return `event: ${type}\ndata: {"type":"${type}"${members}}${sseEventEnd}`;
}

const ping = event("ping", "");
const messageStop = event("message_stop", "");

type BlockType = "text" | "thinking" | "tool_use";

/**
 * The events of one message: `message_start`, then the blocks one after the other, then `message_delta` with the usage and
 * `message_stop` (ANT-2, ANT-3). A block begins with its first content, so there are no empty blocks.
 */
export class MessageFrames implements StreamFrames<ChatCompletionChunk> {
  readonly #model: string;
  readonly #answer: Pick<StreamAnswer<unknown>, "id" | "promptUsage">;
  /** Index of the open block, or of the last block if none is open; -1 before the first. */
  #index = -1;
  #open: BlockType | null = null;
  /** A delta event of the open block, up to its text. */
  #deltaStart = "";
  #hasRefusal = false;
  #stop = "";

  constructor(model: string, answer: Pick<StreamAnswer<unknown>, "id" | "promptUsage">) {
    this.#model = model;
    this.#answer = answer;
  }

  begin(): string {
    const { id, promptUsage } = this.#answer;
    const { promptTokens, cachedTokens } = promptUsage();
    return event(
      "message_start",
      `,"message":{"id":"${id}","type":"message","role":"assistant","model":${jsonString(this.#model)},"content":[]` +
        `,"stop_reason":null,"stop_sequence":null,"usage":{${promptJson(promptTokens, cachedTokens)},"output_tokens":0}}`,
    );
  }

  frame({ choices, usage }: ChatCompletionChunk): string {
    const [choice] = choices;
    // Nearly all chunks continue the text of an open block.
    const text = choice?.delta?.content;
    if (text && this.#open === "text" && choice?.finishReason === undefined) return this.#deltaOf(text);
    if (choice !== undefined) return this.#eventsOf(choice);
    return this.#close() + event("message_delta", `,"delta":{${this.#stop}},"usage":${usageJson(usage)}`);
  }

  end(): string {
    return messageStop;
  }

  failed(error: object): string {
    return `event: error\ndata: ${JSON.stringify(error)}${sseEventEnd}`;
  }

  keepAlive(): string {
    return ping;
  }

  #eventsOf({ delta, finishReason, stopSequence }: ChatChunkChoice): string {
    let events = "";
    if (delta?.reasoningContent) events += this.#text("thinking", delta.reasoningContent);
    if (delta?.content) events += this.#text("text", delta.content);
    if (delta?.refusal) {
      this.#hasRefusal = true;
      events += this.#text("text", delta.refusal);
    }
    for (const call of delta?.toolCalls ?? []) events += this.#call(call);
    if (finishReason !== undefined) this.#stop = stopJson(finishReason, stopSequence, this.#hasRefusal);
    return events;
  }

  #text(type: "text" | "thinking", text: string): string {
    if (this.#open === type) return this.#deltaOf(text);
    const block = type === "text" ? '{"type":"text","text":""}' : '{"type":"thinking","thinking":"","signature":""}';
    return this.#begin(type, block) + this.#deltaOf(text);
  }

  #call({ id, name, argumentsJson = "" }: ToolCallDelta): string {
    if (id === undefined) return argumentsJson === "" ? "" : this.#deltaOf(argumentsJson);
    const block = `{"type":"tool_use","id":${jsonString(id)},"name":${jsonString(name ?? "")},"input":{}}`;
    return this.#begin("tool_use", block) + this.#deltaOf(argumentsJson);
  }

  #begin(type: BlockType, block: string): string {
    const closed = this.#close();
    this.#open = type;
    this.#index += 1;
    const [delta, field] = deltaNames[type];
    const start = event("content_block_delta", `,"index":${this.#index},"delta":{"type":"${delta}","${field}":`);
    this.#deltaStart = start.slice(0, -`}${sseEventEnd}`.length);
    return closed + event("content_block_start", `,"index":${this.#index},"content_block":${block}`);
  }

  #deltaOf(text: string): string {
    return `${this.#deltaStart + jsonString(text)}}}${sseEventEnd}`;
  }

  /** Ends the open block. A thinking block ends with a signature, which is empty because this service signs nothing. */
  #close(): string {
    if (this.#open === null) return "";
    const at = `,"index":${this.#index}`;
    const signature = `${at},"delta":{"type":"signature_delta","signature":""}`;
    const signed = this.#open === "thinking" ? event("content_block_delta", signature) : "";
    this.#open = null;
    return signed + event("content_block_stop", at);
  }
}

/** Type of a block's deltas, and the field with their text (ANT-4). */
const deltaNames: Readonly<Record<BlockType, readonly [type: string, field: string]>> = {
  text: ["text_delta", "text"],
  thinking: ["thinking_delta", "thinking"],
  tool_use: ["input_json_delta", "partial_json"],
};
