import type { ChatCompletionChunk } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionChunk } from "../../../gen/unified/inference/v1/completion_pb.js";

/** Measured heap size of a chunk with one choice and an entry of a queue, without its text. */
const chunkBytes = 384;
/** The same for one token of log probabilities, or one alternative. */
const logprobBytes = 320;

/** Estimated heap size of a chunk that waits for its reader: objects count, because most chunks are a few characters of text. */
export function chatChunkBytes({ choices, native }: ChatCompletionChunk & { readonly native?: string }): number {
  const choice = choices[0];
  // The core's chunks have at most one choice.
  if (choice === undefined) return chunkBytes + (native?.length ?? 0);
  const { delta, logprobs } = choice;
  let bytes = chunkBytes;
  if (delta !== undefined) {
    const { content, reasoningContent, refusal, toolCalls } = delta;
    bytes += (content ?? reasoningContent ?? refusal ?? "").length;
    if (toolCalls.length > 0) bytes += toolCalls.reduce((sum, call) => sum + (call.argumentsJson?.length ?? 0), 0);
  }
  if (logprobs === undefined) return bytes;
  return logprobs.content.reduce((sum, { topLogprobs }) => sum + logprobBytes * (1 + topLogprobs.length), bytes);
}

/** chatChunkBytes for a chunk of a text completion. */
export function completionChunkBytes({ choices }: CompletionChunk): number {
  let bytes = chunkBytes;
  for (const { text, logprobs } of choices) {
    bytes += text.length;
    for (const alternatives of logprobs?.topLogprobs ?? []) {
      bytes += logprobBytes * Object.keys(alternatives.logprobs).length;
    }
    bytes += logprobBytes * (logprobs?.tokens.length ?? 0);
  }
  return bytes;
}
