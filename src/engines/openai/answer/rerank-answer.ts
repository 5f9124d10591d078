import type { RerankRequest, RerankResult } from "../../../domain/engine/engine.js";
import { countOf, InvalidResponse, isObject, parseJson } from "../protocol/upstream-failure.js";

/** Bytes of an answer, which may repeat the documents. */
export const rerankBytesMax = 64 * 1_024 * 1_024;

/** Reads the answer to a rerank request, which has the documents in the order of their scores. Throws InvalidResponse. */
export function readScores(body: string, { documents }: RerankRequest, estimatedTokens: () => number): RerankResult {
  const answer = parseJson(body);
  const results: unknown = isObject(answer) ? (answer["results"] ?? answer["data"]) : answer;
  if (!Array.isArray(results)) throw new InvalidResponse("the upstream's answer to a rerank request has no results");
  const scores: (number | undefined)[] = documents.map(() => undefined);
  for (const result of results) {
    if (!isObject(result)) continue;
    const index = countOf(result["index"]);
    const score = result["relevance_score"] ?? result["score"];
    if (index !== null && typeof score === "number" && Number.isFinite(score)) scores[index] = score;
  }
  const complete = scores.filter((score) => score !== undefined);
  if (complete.length !== documents.length || scores.length !== documents.length) {
    throw new InvalidResponse(`the upstream returned ${complete.length} scores for ${documents.length} documents`);
  }
  const usage = isObject(answer) && isObject(answer["usage"]) ? answer["usage"] : {};
  const promptTokens = countOf(usage["prompt_tokens"]) ?? countOf(usage["total_tokens"]) ?? estimatedTokens();
  return { scores: complete, promptTokens };
}
