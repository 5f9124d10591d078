import { create } from "@bufbuild/protobuf";
import { type Ranking, RankingSchema, type RerankParams } from "../../../gen/unified/inference/v1/rerank_pb.js";
import { fixedLimits } from "../../contract/limits.js";
import type { Answer } from "../call/call-context.js";
import {
  checkCount,
  checkInteger,
  checkLength,
  checkNotEmpty,
  checkPresent,
  refuse,
  refuseValue,
} from "../call/service-error.js";
import type { Capabilities, RerankRequest } from "../engine/engine.js";
import type { AdmittedRequest } from "./fallbacks.js";
import { type BuildInput, runInput, tallied } from "./input-run.js";

/** Validates a rerank request as far as no model is needed. Throws ServiceError. */
export function validateRerank({ model, query, documents, topN }: RerankParams): void {
  checkPresent(model, "model");
  checkPresent(query, "query");
  checkLength(query, "query", fixedLimits.rerankQueryCharsMax);
  checkNotEmpty(documents.length, "documents");
  checkCount(documents.length, "documents", fixedLimits.rerankDocumentsMax);
  let bytes = Buffer.byteLength(query);
  for (const [i, document] of documents.entries()) {
    const at = `documents[${i}]`;
    if (document === "") refuseValue(at, `'${at}' must have at least 1 character, but is empty.`);
    bytes += Buffer.byteLength(document);
  }
  const { rerankBytesMax } = fixedLimits;
  if (bytes > rerankBytesMax) {
    refuseValue(
      "documents",
      `'query' and 'documents' may have at most ${rerankBytesMax} bytes together, but have ${bytes}. Send them in several requests.`,
    );
  }
  checkInteger(topN, "top_n", 1, fixedLimits.int32Max);
}

/** Builds the engine request of a valid rerank request. Throws ServiceError for a deployment that does not rerank. */
export function toRerankRequest({ model, query, documents }: RerankParams, caps: Capabilities): RerankRequest {
  if (!caps.rerank) refuse("model_not_supported", "model", `The model '${model}' does not do rerank.`);
  return { query, documents };
}

/**
 * Runs and settles an admitted rerank request. All documents are one engine call, because some models compare the documents
 * with each other. `id` is the id of the answer.
 */
export function rerank(
  admitted: AdmittedRequest<RerankRequest>,
  build: BuildInput<RerankRequest>,
  params: RerankParams,
  id: string,
): Promise<Answer<Ranking>> {
  const { documents } = params;
  const { run } = admitted;
  return runInput(
    admitted,
    build,
    async (loaded, request) => {
      const { scores } = await tallied(run, 0, () => loaded.rerank(request, run.call.stop));
      if (scores.length !== documents.length) throw new Error("the engine did not return one score per document");
      for (const score of scores) if (!Number.isFinite(score)) throw new Error("a score is not a finite number");
      return scores;
    },
    (scores) => {
      const { promptTokens } = run.tally.total();
      return create(RankingSchema, {
        id,
        model: run.requestedModel.id,
        results: bestFirst(scores, params.topN ?? documents.length).map((index) => ({
          index,
          relevanceScore: scores[index] ?? 0,
          ...(params.returnDocuments === false ? {} : { document: { text: documents[index] ?? "" } }),
        })),
        usage: { promptTokens, totalTokens: promptTokens },
      });
    },
  );
}

/** Indexes of the `count` highest scores; the sort is stable, so that equal scores keep the order of the request. */
function bestFirst(scores: readonly number[], count: number): readonly number[] {
  const indexes = scores.map((_, index) => index);
  return indexes.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0)).slice(0, count);
}
