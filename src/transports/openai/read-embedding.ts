import { create } from "@bufbuild/protobuf";
import { type EmbeddingParams, EmbeddingParamsSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { type JsonObject, unknownValue } from "./json-object.js";
import { readTextOrTokens } from "./read-text-or-tokens.js";

export type EncodingFormat = "float" | "base64";

export interface EmbeddingCall {
  readonly params: EmbeddingParams;
  readonly encoding: EncodingFormat;
}

/** Reads the body of `POST /v1/embeddings`. Throws ServiceError. */
export function readEmbedding(body: JsonObject): EmbeddingCall {
  const model = body.requiredString("model");
  const { texts, tokens } = readTextOrTokens(body, "input");
  const params = create(EmbeddingParamsSchema, {
    model,
    input: texts,
    inputTokens: tokens,
    dimensions: body.int32("dimensions"),
    user: body.string("user"),
  });
  return { params, encoding: readEncoding(body) };
}

function readEncoding(body: JsonObject): EncodingFormat {
  const encoding = body.string("encoding_format") ?? "float";
  if (encoding === "float" || encoding === "base64") return encoding;
  throw unknownValue("encoding_format", encoding, ["float", "base64"]);
}

/** Fields of the body that are known. */
export const embeddingFields: ReadonlySet<string> = new Set([
  "model",
  "input",
  "dimensions",
  "user",
  "encoding_format",
]);
