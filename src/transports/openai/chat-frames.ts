import type {
  ChatChunkChoice,
  ChatCompletionChunk,
  ChatDelta,
  ToolCallDelta,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { jsonString } from "../../lib/json-string.js";
import { type ChunkFrames, FrameTemplate } from "./chunk-frames.js";
import { chatLogprobsToJson } from "./write-logprobs.js";

/** The frames of one chat stream. */
export class ChatFrames implements ChunkFrames<ChatCompletionChunk> {
  readonly #includeUsage: boolean;
  #template: FrameTemplate | undefined;
  /** A choice that is not finished yet; undefined before the first chunk and when the latest was a finish. */
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

/** Nearly all chunks are plain text: those are put together by hand. */
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

/** Keys that have nothing new are absent (STRM-17), except the content of a first delta that is not text (STRM-2). */
function deltaToJson(delta: ChatDelta): object {
  return {
    ...(delta.role !== undefined && { role: "assistant", content: null }),
    ...(delta.content !== undefined && { content: delta.content }),
    ...(delta.refusal !== undefined && { refusal: delta.refusal }),
    ...(delta.reasoningContent !== undefined && { reasoning_content: delta.reasoningContent }),
    ...(delta.toolCalls.length > 0 && { tool_calls: delta.toolCalls.map(toolCallToJson) }),
  };
}

/** Id, type and name in the first delta of a call only: clients concatenate what is repeated (STRM-7). */
function toolCallToJson(call: ToolCallDelta): object {
  const args = call.argumentsJson ?? "";
  if (call.id === undefined) return { index: call.index, function: { arguments: args } };
  return { index: call.index, id: call.id, type: "function", function: { name: call.name ?? "", arguments: args } };
}
