import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";

/** Tokens of a completion, with their parts where the core knows them. */
export function usageToJson(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    ...(usage.promptTokensDetails && {
      prompt_tokens_details: { cached_tokens: usage.promptTokensDetails.cachedTokens },
    }),
    ...(usage.completionTokensDetails && {
      completion_tokens_details: { reasoning_tokens: usage.completionTokensDetails.reasoningTokens },
    }),
  };
}
