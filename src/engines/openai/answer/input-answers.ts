import {
  type EmbedRequest,
  type EmbedResult,
  EngineError,
  isFiniteVector,
  type RerankRequest,
  type RerankResult,
} from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";
import { countOf, InvalidResponse, parseJson } from "../protocol/upstream-failure.js";

/** Maximum bytes of an answer: 128 inputs with vectors of 8,192 numbers in decimal. */
export const embeddingBytesMax = 32 * 1_024 * 1_024;

/**
 * Reads the answer to an embeddings request: vectors in base64, or as lists where the server ignores `encoding_format`.
 * Throws InvalidResponse, and EngineError `unsupported` for vectors whose length is not the requested one.
 */
export function readEmbeddings(
  body: string,
  { inputs, dimensions }: EmbedRequest,
  estimatedTokens: () => number,
): EmbedResult {
  const answer = parseJson(body);
  if (!isObject(answer) || !Array.isArray(answer["data"])) {
    throw new InvalidResponse("the upstream's answer to an embeddings request has no vectors");
  }
  const found = new Map<number, Float32Array>();
  for (const [position, entry] of (answer["data"] as readonly unknown[]).entries()) {
    if (isObject(entry)) found.set(countOf(entry["index"]) ?? position, vectorOf(entry["embedding"]));
  }
  const vectors = inOrder(found, inputs.length, "vectors", "inputs");
  const length = vectors[0]?.length ?? 0;
  if (vectors.some((vector) => vector.length !== length || !isFiniteVector(vector))) {
    throw new InvalidResponse(
      "the upstream returned vectors of different lengths, or with numbers that are not finite",
    );
  }
  if (dimensions !== undefined && length !== dimensions) {
    throw new EngineError("unsupported", `The server cannot shorten vectors: they have ${length} dimensions.`, {
      param: "dimensions",
    });
  }
  return { vectors, promptTokens: promptTokensOf(answer, estimatedTokens) };
}

function vectorOf(value: unknown): Float32Array {
  if (typeof value === "string") return fromBase64(value);
  // llama.cpp nests the vector of an unpooled model.
  const numbers: unknown = Array.isArray(value) && Array.isArray(value[0]) ? value[0] : value;
  if (!Array.isArray(numbers) || numbers.length === 0 || !numbers.every((number) => typeof number === "number")) {
    throw new InvalidResponse("the upstream returned an embedding that is no vector");
  }
  return Float32Array.from(numbers);
}

/** Decodes little-endian 32-bit floats. */
function fromBase64(text: string): Float32Array {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 0 || bytes.length % 4 !== 0) {
    throw new InvalidResponse("the upstream returned an embedding that is no vector");
  }
  const { buffer, byteOffset, byteLength } = bytes;
  // A Float32Array view must begin at a multiple of 4 bytes.
  const isAligned = byteOffset % 4 === 0;
  return isAligned
    ? new Float32Array(buffer, byteOffset, byteLength / 4)
    : new Float32Array(Uint8Array.from(bytes).buffer);
}

/** Maximum bytes of an answer, which may repeat the documents. */
export const rerankBytesMax = 64 * 1_024 * 1_024;

/** Reads the answer to a rerank request, which has the documents in the order of their scores. Throws InvalidResponse. */
export function readScores(body: string, { documents }: RerankRequest, estimatedTokens: () => number): RerankResult {
  const answer = parseJson(body);
  const results: unknown = isObject(answer) ? (answer["results"] ?? answer["data"]) : answer;
  if (!Array.isArray(results)) throw new InvalidResponse("the upstream's answer to a rerank request has no results");
  const found = new Map<number, number>();
  for (const result of results) {
    if (!isObject(result)) continue;
    const index = countOf(result["index"]);
    const score = result["relevance_score"] ?? result["score"];
    if (index !== null && typeof score === "number" && Number.isFinite(score)) found.set(index, score);
  }
  const scores = inOrder(found, documents.length, "scores", "documents");
  return { scores, promptTokens: promptTokensOf(answer, estimatedTokens) };
}

/** The results at the indexes 0 to `count` - 1. Throws InvalidResponse if one is missing or another index has a result. */
function inOrder<R>(found: ReadonlyMap<number, R>, count: number, results: string, inputs: string): R[] {
  const ordered = Array.from({ length: count }, (_, index) => found.get(index)).filter(
    (result) => result !== undefined,
  );
  if (ordered.length !== count || found.size !== count) {
    throw new InvalidResponse(`the upstream returned ${found.size} ${results} for ${count} ${inputs}`);
  }
  return ordered;
}

function promptTokensOf(answer: unknown, estimatedTokens: () => number): number {
  const usage = isObject(answer) && isObject(answer["usage"]) ? answer["usage"] : {};
  return countOf(usage["prompt_tokens"]) ?? countOf(usage["total_tokens"]) ?? estimatedTokens();
}
