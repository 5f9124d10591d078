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
import { type Core, OpenAiBytes } from "../core.js";
import { limitHeaders } from "../limits/limit-headers.js";
import { invariant } from "../service-error.js";
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
      return create(CreateChatCompletionResponseSchema, { completion: messageOf(body) });
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
      return create(CreateCompletionResponseSchema, { completion: messageOf(body) });
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
      return create(CreateEmbeddingsResponseSchema, { embeddings: messageOf(body) });
    },
  });
}

/** Calls of these services want messages, so the core never answers them with bytes of another shape. */
function messageOf<M>(body: M | OpenAiBytes): M {
  invariant(!(body instanceof OpenAiBytes), "an RPC was answered with OpenAI bytes");
  return body;
}

async function* mapItems<M, O>(items: AsyncIterable<M | OpenAiBytes>, wrap: (item: M) => O): AsyncIterable<O> {
  for await (const item of items) yield wrap(messageOf(item));
}
