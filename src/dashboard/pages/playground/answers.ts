/** Answers of models: streamed chunks become messages, base64 becomes vectors. */
import type { ChatCompletionChunkJson, ToolCallDeltaJson } from "../../../../gen/unified/inference/v1/chat_pb.js";

/** A tool call of the model. */
export interface Call {
  readonly id: string;
  readonly name: string;
  readonly argumentsJson: string;
}

/** A message of the conversation. */
export interface Message {
  readonly role: "user" | "assistant" | "tool";
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly Call[];
  /** The call that a tool message answers; otherwise empty. */
  readonly callId: string;
  /** The answer ended because it reached its maximum number of tokens. */
  readonly isTruncated: boolean;
}

const empty = { text: "", reasoning: "", calls: [], callId: "", isTruncated: false } as const;

export function userMessage(text: string): Message {
  return { ...empty, role: "user", text };
}

export function toolMessage(callId: string, text: string): Message {
  return { ...empty, role: "tool", text, callId };
}

export const emptyAnswer: Message = { ...empty, role: "assistant" };

/** Whether there is neither text nor a tool call; there may be reasoning. */
export function isSilent({ text, calls }: Message): boolean {
  return text === "" && calls.length === 0;
}

export function isEmpty(message: Message): boolean {
  return isSilent(message) && message.reasoning === "";
}

/** Whether the finish reason is the maximum number of tokens. */
export function isTruncatedBy(finishReason: string | undefined): boolean {
  return finishReason === "length";
}

/** The answer extended by a chunk. */
export function withChunk(message: Message, { choices = [] }: ChatCompletionChunkJson): Message {
  const [choice] = choices;
  if (choice === undefined) return message;
  const { delta = {}, finishReason } = choice;
  return {
    ...message,
    isTruncated: message.isTruncated || isTruncatedBy(finishReason),
    text: message.text + (delta.content ?? "") + (delta.refusal ?? ""),
    reasoning: message.reasoning + (delta.reasoningContent ?? ""),
    calls: (delta.toolCalls ?? []).reduce(withCall, message.calls),
  };
}

function withCall(calls: readonly Call[], part: ToolCallDeltaJson): readonly Call[] {
  const index = part.index ?? 0;
  const before = calls[index] ?? { id: "", name: "", argumentsJson: "" };
  const call = {
    id: part.id ?? before.id,
    name: part.name ?? before.name,
    argumentsJson: before.argumentsJson + (part.argumentsJson ?? ""),
  };
  return [...calls.slice(0, index), call, ...calls.slice(index + 1)];
}

/** Decodes a vector from base64 of little-endian float32. */
export function vectorOf(base64: string): readonly number[] {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_none, index) => view.getFloat32(index * 4, true));
}

/** Cosine similarity, -1 to 1; 0 for a zero vector. */
export function similarity(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]): number =>
    x.reduce((sum, value, index) => sum + value * (y[index] ?? 0), 0);
  const size = Math.sqrt(dot(a, a) * dot(b, b));
  return size === 0 ? 0 : dot(a, b) / size;
}
