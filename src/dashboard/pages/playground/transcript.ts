/** A conversation, and how the pieces of an answer become its last turn. */
import type { ChatCompletionChunkJson, ToolCallDeltaJson } from "../../../../gen/unified/inference/v1/chat_pb.js";

export interface Call {
  readonly id: string;
  readonly name: string;
  readonly argumentsJson: string;
}

export interface Turn {
  readonly role: "user" | "assistant" | "tool";
  readonly text: string;
  /** What the model thought before it answered. */
  readonly reasoning: string;
  /** Tools that the model calls. */
  readonly calls: readonly Call[];
  /** The call that a turn of a tool answers; else empty. */
  readonly callId: string;
  /** It was to say more, but the limit of tokens was reached. */
  readonly isCut: boolean;
}

const empty = { text: "", reasoning: "", calls: [], callId: "", isCut: false } as const;

export function userTurn(text: string): Turn {
  return { ...empty, role: "user", text };
}

export function toolTurn(callId: string, text: string): Turn {
  return { ...empty, role: "tool", text, callId };
}

export const emptyAnswer: Turn = { ...empty, role: "assistant" };

/** Whether nothing was said and nothing called, though it may have been thought of. */
export function isSilent({ text, calls }: Turn): boolean {
  return text === "" && calls.length === 0;
}

/** Whether nothing came at all. */
export function isEmpty(turn: Turn): boolean {
  return isSilent(turn) && turn.reasoning === "";
}

/** Whether an answer was ended by its limit of tokens. */
export function isCutBy(finishReason: string | undefined): boolean {
  return finishReason === "length";
}

/** The answer with one more piece. */
export function withChunk(turn: Turn, { choices = [] }: ChatCompletionChunkJson): Turn {
  const [choice] = choices;
  if (choice === undefined) return turn;
  const { delta = {}, finishReason } = choice;
  return {
    ...turn,
    isCut: turn.isCut || isCutBy(finishReason),
    text: turn.text + (delta.content ?? "") + (delta.refusal ?? ""),
    reasoning: turn.reasoning + (delta.reasoningContent ?? ""),
    calls: (delta.toolCalls ?? []).reduce(withCall, turn.calls),
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
