import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import type { UsageTotal } from "../call/usage-tally.js";

/** The usage of a generated answer (RESP-8). A literal: every answer has one. */
export function usageMessage(total: UsageTotal): Usage {
  return {
    $typeName: "unified.inference.v1.Usage",
    promptTokens: total.promptTokens,
    completionTokens: total.completionTokens,
    totalTokens: total.promptTokens + total.completionTokens,
    promptTokensDetails: {
      $typeName: "unified.inference.v1.PromptTokensDetails",
      cachedTokens: total.cachedTokens,
    },
    completionTokensDetails: {
      $typeName: "unified.inference.v1.CompletionTokensDetails",
      reasoningTokens: total.reasoningTokens,
    },
  };
}
