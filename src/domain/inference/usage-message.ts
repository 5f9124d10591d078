import { create } from "@bufbuild/protobuf";
import { type Usage, UsageSchema } from "../../../gen/unified/inference/v1/usage_pb.js";
import type { UsageTotal } from "../usage/usage-tally.js";

/** The usage of a generated answer (RESP-8). */
export function usageMessage(total: UsageTotal): Usage {
  return create(UsageSchema, {
    promptTokens: total.promptTokens,
    completionTokens: total.completionTokens,
    totalTokens: total.promptTokens + total.completionTokens,
    promptTokensDetails: { cachedTokens: total.cachedTokens },
    completionTokensDetails: { reasoningTokens: total.reasoningTokens },
  });
}
