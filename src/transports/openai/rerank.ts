import { create } from "@bufbuild/protobuf";
import { type Ranking, type RerankParams, RerankParamsSchema } from "../../../gen/unified/inference/v1/rerank_pb.js";
import { asString, type JsonObject, missingField, wrongType } from "../http/json-object.js";

/** Reads the body of `POST /v1/rerank`, in the form that Jina, Cohere and vLLM share. Throws ServiceError. */
export function readRerank(body: JsonObject): RerankParams {
  const documents = body.array("documents") ?? missingField("documents");
  return create(RerankParamsSchema, {
    model: body.requiredString("model"),
    query: body.requiredString("query"),
    documents: documents.map((item, i) => readDocument(item, `documents[${i}]`)),
    topN: body.int32("top_n"),
    returnDocuments: body.boolean("return_documents"),
  });
}

/** Reads a document: a text, or an object with a `text`, whose other fields are ignored. */
function readDocument(item: unknown, path: string): string {
  if (typeof item === "string") return item;
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    return wrongType(path, "a string or an object with a text", item);
  }
  const text: unknown = "text" in item ? item.text : null;
  return text === null ? missingField(`${path}.text`) : asString(text, `${path}.text`);
}

/** Fields of the body that are known. */
export const rerankFields: ReadonlySet<string> = new Set(["model", "query", "documents", "top_n", "return_documents"]);

/** The JSON of a ranking (RANK-2). `meta` is a field of Cohere's API; Cohere's clients reject an answer without it (RANK-8). */
export function rankingJson({ id, model, results, usage }: Ranking): object {
  const { promptTokens = 0, totalTokens = 0 } = usage ?? {};
  return {
    id,
    model,
    results: results.map(({ index, relevanceScore, document }) => ({
      index,
      relevance_score: relevanceScore,
      ...(document !== undefined && { document: { text: document.text } }),
    })),
    usage: { prompt_tokens: promptTokens, total_tokens: totalTokens },
    meta: { tokens: { input_tokens: promptTokens } },
  };
}
