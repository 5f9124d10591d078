import type { UsageBucket, UsagePage, UsageResult } from "../../domain/metering/usage-query.js";

/**
 * A page of usage in the shape of OpenAI's usage API. Sums are integers of any size: they are written as their digits,
 * because a number of JavaScript would round what is beyond 2^53 (USE-9).
 */
export function usagePageJson({ buckets, next }: UsagePage): string {
  const data = buckets.map(bucketJson).join(",");
  return `{"object":"page","data":[${data}],"has_more":${next !== null},"next_page":${JSON.stringify(next)}}`;
}

function bucketJson({ startMs, endMs, results }: UsageBucket): string {
  const times = `"start_time":${Math.floor(startMs / 1_000)},"end_time":${Math.floor(endMs / 1_000)}`;
  return `{"object":"bucket",${times},"results":[${results.map(resultJson).join(",")}]}`;
}

function resultJson(result: UsageResult): string {
  const sums =
    `"input_tokens":${result.promptTokens},"output_tokens":${result.completionTokens},` +
    `"input_cached_tokens":${result.cachedTokens},"num_model_requests":${result.requests},` +
    `"cost_nano_dollars":${result.costNano}`;
  const names = `"model":${JSON.stringify(result.model)},"api_key_id":${JSON.stringify(result.keyId)}`;
  return `{"object":"usage.result",${sums},${names}}`;
}
