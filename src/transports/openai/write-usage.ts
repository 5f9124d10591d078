import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";

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
