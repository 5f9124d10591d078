import { type EmbedRequest, type EmbedResult, EngineError } from "../../../domain/engine/engine.js";
import { countOf, InvalidResponse, isObject, parseJson } from "../protocol/upstream-failure.js";

/** Bytes of an answer: 128 inputs with vectors of 8,192 numbers in decimal. */
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
  const vectors: (Float32Array | undefined)[] = inputs.map(() => undefined);
  for (const [position, entry] of (answer["data"] as readonly unknown[]).entries()) {
    if (!isObject(entry)) continue;
    vectors[countOf(entry["index"]) ?? position] = vectorOf(entry["embedding"]);
  }
  const complete = vectors.filter((vector) => vector !== undefined);
  if (complete.length !== inputs.length || vectors.length !== inputs.length) {
    throw new InvalidResponse(`the upstream returned ${complete.length} vectors for ${inputs.length} inputs`);
  }
  const length = complete[0]?.length ?? 0;
  if (complete.some((vector) => vector.length !== length || !vector.every(Number.isFinite))) {
    throw new InvalidResponse(
      "the upstream returned vectors of different lengths, or with numbers that are not finite",
    );
  }
  if (dimensions !== undefined && length !== dimensions) {
    throw new EngineError("unsupported", `The server cannot shorten vectors: they have ${length} dimensions.`, {
      param: "dimensions",
    });
  }
  const usage = isObject(answer["usage"]) ? answer["usage"] : {};
  const promptTokens = countOf(usage["prompt_tokens"]) ?? countOf(usage["total_tokens"]) ?? estimatedTokens();
  return { vectors: complete, promptTokens };
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

/** Little-endian 32-bit floats. */
function fromBase64(text: string): Float32Array {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 0 || bytes.length % 4 !== 0) {
    throw new InvalidResponse("the upstream returned an embedding that is no vector");
  }
  // A copy of its own, because a view has to begin at a multiple of 4.
  return new Float32Array(Uint8Array.from(bytes).buffer);
}
