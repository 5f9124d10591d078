import type { ChatCompletionChunk } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionChunk } from "../../../gen/unified/inference/v1/completion_pb.js";

/**
 * Two text deltas of the same choice as one, so that a slow reader gets few long chunks instead of a growing backlog of
 * short ones. Null for everything else: roles, tool calls, reasoning, finish reasons, log probabilities and usage stay
 * chunks of their own. A merged text has at most `charsMax` UTF-16 code units.
 */
export function mergeChatChunks(
  waiting: ChatCompletionChunk,
  next: ChatCompletionChunk,
  charsMax: number,
): ChatCompletionChunk | null {
  const before = chatText(waiting);
  const after = chatText(next);
  if (before === null || after === null || before.index !== after.index) return null;
  if (before.text.length + after.text.length > charsMax) return null;
  const { choice } = after;
  return {
    ...next,
    choices: [{ ...choice, delta: { ...choice.delta, content: before.text + after.text } }],
  };
}

/** As mergeChatChunks, for text completions. */
export function mergeCompletionChunks(
  waiting: CompletionChunk,
  next: CompletionChunk,
  charsMax: number,
): CompletionChunk | null {
  const before = completionText(waiting);
  const after = completionText(next);
  if (before === null || after === null || before.index !== after.index) return null;
  if (before.text.length + after.text.length > charsMax) return null;
  return { ...next, choices: [{ ...after, text: before.text + after.text }] };
}

/** The only choice of a chunk that holds text and nothing else. */
function chatText({ choices, usage }: ChatCompletionChunk) {
  const [choice] = choices;
  if (choice?.delta === undefined || choices.length > 1 || usage !== undefined) return null;
  const { delta, finishReason, logprobs } = choice;
  const alone =
    delta.role === undefined &&
    delta.refusal === undefined &&
    delta.reasoningContent === undefined &&
    delta.toolCalls.length === 0 &&
    finishReason === undefined &&
    logprobs === undefined;
  if (delta.content === undefined || !alone) return null;
  return { index: choice.index, text: delta.content, choice: { ...choice, delta } };
}

function completionText({ choices, usage }: CompletionChunk) {
  const [choice] = choices;
  if (choice === undefined || choices.length > 1 || usage !== undefined) return null;
  return choice.finishReason === undefined && choice.logprobs === undefined ? choice : null;
}
