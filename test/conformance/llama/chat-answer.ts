import { expect } from "vitest";
import { eventsOf, type Reply } from "../openai/api.js";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface TokenEntry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly Omit<TokenEntry, "top_logprobs">[];
}

/** The first choice of a chat, assembled from a whole JSON answer or from a stream. */
export interface ChatAnswer {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  readonly finishReason: string;
  readonly logprobs: readonly TokenEntry[];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
    readonly completion_tokens_details: { readonly reasoning_tokens: number };
  };
  /** Pieces of content as received; one piece if the answer was not streamed. */
  readonly pieces: readonly string[];
}

export function wholeAnswer(reply: Reply): ChatAnswer {
  expect(reply.status, reply.text).toBe(200);
  const [{ message, finish_reason, logprobs }] = reply.json.choices;
  return {
    content: message.content ?? "",
    reasoning: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? []).map(
      ({ id, function: call }: { id: string; function: Omit<ToolCall, "id"> }): ToolCall => ({ id, ...call }),
    ),
    finishReason: finish_reason,
    logprobs: logprobs?.content ?? [],
    usage: reply.json.usage,
    pieces: [message.content ?? ""],
  };
}

/** Assembles a stream that was requested with `include_usage`. */
export function streamedAnswer(reply: Reply): ChatAnswer {
  expect(reply.status, reply.text).toBe(200);
  const events = eventsOf(reply.text);
  expect(events.at(-1), reply.text.slice(-500)).toBe("[DONE]");
  const chunks = events.slice(0, -1);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const calls: ToolCall[] = [];
  for (const { index, id, function: part } of choices.flatMap(({ delta }) => delta.tool_calls ?? [])) {
    const call = calls[index] ?? { id, name: part.name, arguments: "" };
    calls[index] = { ...call, arguments: call.arguments + (part.arguments ?? "") };
  }
  const pieces = choices.map(({ delta }) => delta.content ?? "").filter((piece) => piece !== "");
  return {
    content: pieces.join(""),
    reasoning: choices.map(({ delta }) => delta.reasoning_content ?? "").join(""),
    calls,
    finishReason: choices.find(({ finish_reason }) => finish_reason !== null)?.finish_reason,
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.content ?? []),
    usage: chunks.at(-1).usage,
    pieces,
  };
}

/** Fields that request a stream with its usage. */
export const streaming = { stream: true, stream_options: { include_usage: true } } as const;
