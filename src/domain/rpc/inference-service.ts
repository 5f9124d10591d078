import { create } from "@bufbuild/protobuf";
import { ChatCompletionParamsSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionParamsSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import { EmbeddingParamsSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import {
  CreateChatCompletionResponseSchema,
  CreateCompletionResponseSchema,
  CreateEmbeddingsResponseSchema,
  InferenceService,
  StreamChatCompletionResponseSchema,
  StreamCompletionResponseSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { Core } from "../core.js";
import { limitHeaders } from "../metering/limit-response.js";
import { mergeChatChunks, mergeCompletionChunks } from "./merge-chunks.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/**
 * `unified.inference.v1.InferenceService` on the core. A request without `params` is one with empty params: validation
 * names the field that is missing. Chunks merge up to the size of a stream's buffer.
 */
export function createInferenceService(core: Core, limits: Pick<ServiceLimits, "streamBufferBytesMax">): RpcService {
  return rpcService(InferenceService, {
    async createChatCompletion({ params }, ctx, sendHead) {
      const { head, body } = await core.createChatCompletion(params ?? create(ChatCompletionParamsSchema), ctx);
      sendHead(limitHeaders(head));
      return create(CreateChatCompletionResponseSchema, { completion: body });
    },
    async streamChatCompletion({ params }, ctx, sendHead) {
      const { head, items } = await core.streamChatCompletion(params ?? create(ChatCompletionParamsSchema), ctx);
      sendHead(limitHeaders(head));
      return {
        items: mapItems(items, (chunk) => create(StreamChatCompletionResponseSchema, { chunk })),
        merge: (waiting, next) => {
          if (waiting.chunk === undefined || next.chunk === undefined) return null;
          const chunk = mergeChatChunks(waiting.chunk, next.chunk, limits.streamBufferBytesMax);
          return chunk && { ...next, chunk };
        },
      };
    },
    async createCompletion({ params }, ctx, sendHead) {
      const { head, body } = await core.createCompletion(params ?? create(CompletionParamsSchema), ctx);
      sendHead(limitHeaders(head));
      return create(CreateCompletionResponseSchema, { completion: body });
    },
    async streamCompletion({ params }, ctx, sendHead) {
      const { head, items } = await core.streamCompletion(params ?? create(CompletionParamsSchema), ctx);
      sendHead(limitHeaders(head));
      return {
        items: mapItems(items, (chunk) => create(StreamCompletionResponseSchema, { chunk })),
        merge: (waiting, next) => {
          if (waiting.chunk === undefined || next.chunk === undefined) return null;
          const chunk = mergeCompletionChunks(waiting.chunk, next.chunk, limits.streamBufferBytesMax);
          return chunk && { ...next, chunk };
        },
      };
    },
    async createEmbeddings({ params }, ctx, sendHead) {
      const { head, body } = await core.createEmbeddings(params ?? create(EmbeddingParamsSchema), ctx);
      sendHead(limitHeaders(head));
      return create(CreateEmbeddingsResponseSchema, { embeddings: body });
    },
  });
}

async function* mapItems<M, O>(items: AsyncIterable<M>, wrap: (item: M) => O): AsyncIterable<O> {
  for await (const item of items) yield wrap(item);
}
