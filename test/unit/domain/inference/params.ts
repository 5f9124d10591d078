import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ChatCompletionParams,
  ChatCompletionParamsSchema,
  type ContentPartSchema,
  Role,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { type CompletionParams, CompletionParamsSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import { type EmbeddingParams, EmbeddingParamsSchema } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import { type RerankParams, RerankParamsSchema } from "../../../../gen/unified/inference/v1/rerank_pb.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";

/** One text part. */
export function text(value: string): MessageInitShape<typeof ContentPartSchema> {
  return { part: { case: "text", value } };
}

/** A user's message. */
export function says(value: string) {
  return { role: Role.USER, content: [text(value)] };
}

/** A valid chat request with some fields changed. */
export function chat(changes: MessageInitShape<typeof ChatCompletionParamsSchema> = {}): ChatCompletionParams {
  return create(ChatCompletionParamsSchema, { model: "m", messages: [says("Hi")], ...changes });
}

/** A valid completions request with some fields changed. */
export function completion(changes: MessageInitShape<typeof CompletionParamsSchema> = {}): CompletionParams {
  return create(CompletionParamsSchema, { model: "m", prompt: ["Once"], ...changes });
}

/** A valid embeddings request with some fields changed. */
export function embedding(changes: MessageInitShape<typeof EmbeddingParamsSchema> = {}): EmbeddingParams {
  return create(EmbeddingParamsSchema, { model: "m", input: ["a"], ...changes });
}

/** A valid rerank request with some fields changed. */
export function reranking(changes: MessageInitShape<typeof RerankParamsSchema> = {}): RerankParams {
  return create(RerankParamsSchema, { model: "m", query: "q", documents: ["a"], ...changes });
}

/** The ServiceError that `run` throws; null when it throws nothing. Other errors are thrown again. */
export function refusal(run: () => unknown): ServiceError | null {
  try {
    run();
    return null;
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** Result of `run` as text: `code param` of its ServiceError, or "accepted". */
export function outcome(run: () => unknown): string {
  const error = refusal(run);
  return error === null ? "accepted" : `${error.code} ${error.param}`;
}
