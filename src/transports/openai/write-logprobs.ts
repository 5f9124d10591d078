import type { CompletionLogprobs } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { Logprobs, TopLogprob } from "../../../gen/unified/inference/v1/logprobs_pb.js";

/** OpenAI's stand-in for "never": JSON has no infinity, and clients reject null in its place (RESP-9). */
const never = -9999;

/** Log probabilities in the form of chat; all keys on every item. Null when none were asked for. */
export function chatLogprobsToJson(logprobs: Logprobs | undefined): object | null {
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
