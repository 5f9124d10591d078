import { create } from "@bufbuild/protobuf";
import { CatalogService } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import { type ChatCompletionChunk, ChatCompletionParamsSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { type CompletionChunk, CompletionParamsSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import { EmbeddingParamsSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import {
  InferenceService,
  StreamChatCompletionResponseSchema,
  StreamCompletionResponseSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { RerankParamsSchema } from "../../../gen/unified/inference/v1/rerank_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { isTranslated } from "../call/forwarded-call.js";
import type { Core } from "../core.js";
import { chatChunkBytes } from "../inference/chat-answer.js";
import { completionChunkBytes } from "../inference/completion.js";
import { answerMetadata, routeFields } from "../metering/limit-response.js";
import { readOriginal, translatedHead } from "./original-request.js";
import { type RpcService, rpcService } from "./rpc-service.js";

/**
 * `unified.inference.v1.InferenceService`. A request without `params` is treated as one with empty params, so that
 * validation names the missing field. Chunks are merged up to the size of a stream's buffer.
 */
export function createInferenceService(core: Core, limits: Pick<ServiceLimits, "streamBufferBytesMax">): RpcService {
  return rpcService(InferenceService, {
    async createChatCompletion({ params, original }, ctx, sendHead) {
      const native = isTranslated(ctx.operation) ? readOriginal(params, original) : undefined;
      const { head, body } = await core.createChatCompletion(params ?? create(ChatCompletionParamsSchema), ctx, native);
      sendHead(answerMetadata(head));
      if (isTranslated(ctx.operation)) sendHead(translatedHead({ native }));
      return body.native === undefined ? { completion: body } : { completion: body, native: body.native };
    },
    async streamChatCompletion({ params, original }, ctx, sendHead) {
      const native = isTranslated(ctx.operation) ? readOriginal(params, original) : undefined;
      const answer = await core.streamChatCompletion(params ?? create(ChatCompletionParamsSchema), ctx, native);
      const { head, items, route } = answer;
      sendHead(answerMetadata(head));
      if (isTranslated(ctx.operation)) sendHead(translatedHead({ native, ...answer }));
      return {
        items: mapItems(items, (chunk) => {
          const response = create(StreamChatCompletionResponseSchema, { chunk });
          if (chunk.native !== undefined) response.native = chunk.native;
          return response;
        }),
        trailers: () => routeFields(route()),
        merge: (waiting, next) => {
          if (waiting.chunk === undefined || next.chunk === undefined) return null;
          if (waiting.native !== "" || next.native !== "") return null;
          const chunk = mergeChatChunks(waiting.chunk, next.chunk, limits.streamBufferBytesMax);
          return chunk && { ...next, chunk };
        },
        bytesOf: ({ chunk }) => (chunk === undefined ? 0 : chatChunkBytes(chunk)),
      };
    },
    async createCompletion({ params }, ctx, sendHead) {
      const { head, body } = await core.createCompletion(params ?? create(CompletionParamsSchema), ctx);
      sendHead(answerMetadata(head));
      return { completion: body };
    },
    async streamCompletion({ params }, ctx, sendHead) {
      const { head, items, route } = await core.streamCompletion(params ?? create(CompletionParamsSchema), ctx);
      sendHead(answerMetadata(head));
      return {
        items: mapItems(items, (chunk) => create(StreamCompletionResponseSchema, { chunk })),
        trailers: () => routeFields(route()),
        merge: (waiting, next) => {
          if (waiting.chunk === undefined || next.chunk === undefined) return null;
          const chunk = mergeCompletionChunks(waiting.chunk, next.chunk, limits.streamBufferBytesMax);
          return chunk && { ...next, chunk };
        },
        bytesOf: ({ chunk }) => (chunk === undefined ? 0 : completionChunkBytes(chunk)),
      };
    },
    async createEmbeddings({ params }, ctx, sendHead) {
      const { head, body } = await core.createEmbeddings(params ?? create(EmbeddingParamsSchema), ctx);
      sendHead(answerMetadata(head));
      return { embeddings: body };
    },
    async rerank({ params }, ctx, sendHead) {
      const { head, body } = await core.rerank(params ?? create(RerankParamsSchema), ctx);
      sendHead(answerMetadata(head));
      return { ranking: body };
    },
    async countTokens({ params }, ctx, sendHead) {
      const { head, body } = await core.countTokens(params ?? create(ChatCompletionParamsSchema), ctx);
      sendHead(answerMetadata(head));
      return body;
    },
  });
}

async function* mapItems<M, O>(items: AsyncIterable<M>, wrap: (item: M) => O): AsyncIterable<O> {
  for await (const item of items) yield wrap(item);
}

/** `unified.catalog.v1.CatalogService`: the list of models. */
export function createCatalogService(core: Core): RpcService {
  return rpcService(CatalogService, {
    listModels: (request, ctx) => core.listModels(request, ctx),
    async getModel({ id }, ctx) {
      return { model: await core.getModel(id, ctx) };
    },
    async watchModels(_request, ctx) {
      return { items: core.watchModels(ctx) };
    },
  });
}

/**
 * Merges two text deltas of a choice, so that a slow reader gets few long chunks instead of a growing backlog of short ones.
 * Returns null for all other chunks: roles, tool calls, reasoning, finish reasons, log probabilities and usage are not
 * merged. A merged text has at most `charsMax` UTF-16 code units.
 */
export function mergeChatChunks(
  waiting: ChatCompletionChunk,
  next: ChatCompletionChunk,
  charsMax: number,
): ChatCompletionChunk | null {
  const before = chatText(waiting);
  const after = chatText(next);
  if (before === null || after === null || before.index !== after.index) return null;
  if (before.text.length + after.text.length > charsMax) return null;
  const { choice } = after;
  return {
    ...next,
    choices: [{ ...choice, delta: { ...choice.delta, content: before.text + after.text } }],
  };
}

/** Merges two chunks of a text completion under the rules of mergeChatChunks. */
export function mergeCompletionChunks(
  waiting: CompletionChunk,
  next: CompletionChunk,
  charsMax: number,
): CompletionChunk | null {
  const before = completionText(waiting);
  const after = completionText(next);
  if (before === null || after === null || before.index !== after.index) return null;
  if (before.text.length + after.text.length > charsMax) return null;
  return { ...next, choices: [{ ...after, text: before.text + after.text }] };
}

/** The choice of a chunk that contains only text. */
function chatText({ choices, usage }: ChatCompletionChunk) {
  const [choice] = choices;
  if (choice?.delta === undefined || choices.length > 1 || usage !== undefined) return null;
  const { delta, finishReason, logprobs } = choice;
  const alone =
    delta.role === undefined &&
    delta.refusal === undefined &&
    delta.reasoningContent === undefined &&
    delta.toolCalls.length === 0 &&
    finishReason === undefined &&
    logprobs === undefined;
  if (delta.content === undefined || !alone) return null;
  return { index: choice.index, text: delta.content, choice: { ...choice, delta } };
}

function completionText({ choices, usage }: CompletionChunk) {
  const [choice] = choices;
  if (choice === undefined || choices.length > 1 || usage !== undefined) return null;
  return choice.finishReason === undefined && choice.logprobs === undefined ? choice : null;
}
