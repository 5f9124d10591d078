import type {
  ListModelsRequest,
  ListModelsResponse,
  WatchModelsResponse,
} from "../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../gen/unified/catalog/v1/model_pb.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
} from "../../gen/unified/inference/v1/chat_pb.js";
import type { Completion, CompletionChunk, CompletionParams } from "../../gen/unified/inference/v1/completion_pb.js";
import type { EmbeddingList, EmbeddingParams } from "../../gen/unified/inference/v1/embedding_pb.js";
import type { CountTokensResponse } from "../../gen/unified/inference/v1/inference_service_pb.js";
import type { Ranking, RerankParams } from "../../gen/unified/inference/v1/rerank_pb.js";
import type { Operation } from "../contract/operations.js";
import type { Answer, CallContext, Caller, StreamAnswer } from "./call/call-context.js";
import type { Piece } from "./inference/chat-answer.js";
import type { NativeOriginal } from "./inference/native-chat.js";

/**
 * The interface that every transport calls: `open` with the request's headers, then one operation with the complete message,
 * then `ctx.close()`. All methods reject with ServiceError.
 */
export interface Core {
  /**
   * Authenticates, authorizes and checks known limits from the headers alone, so that a request can be rejected before its
   * body is read. Returns synchronously when nothing has to be looked up. Never throws: an error rejects the promise.
   */
  open(operation: Operation, caller: Caller): CallContext | Promise<CallContext>;
  /** `native`: the original request in the format of another API, if `params` is a translation of it. */
  createChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<Answer<Piece<ChatCompletion>>>;
  streamChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<StreamAnswer<Piece<ChatCompletionChunk>>>;
  createCompletion(params: CompletionParams, ctx: CallContext): Promise<Answer<Completion>>;
  streamCompletion(params: CompletionParams, ctx: CallContext): Promise<StreamAnswer<CompletionChunk>>;
  createEmbeddings(params: EmbeddingParams, ctx: CallContext): Promise<Answer<EmbeddingList>>;
  rerank(params: RerankParams, ctx: CallContext): Promise<Answer<Ranking>>;
  /** Counts the prompt of a chat completion without running the model. It counts as a request and costs no tokens. */
  countTokens(params: ChatCompletionParams, ctx: CallContext): Promise<Answer<CountTokensResponse>>;
  listModels(request: ListModelsRequest, ctx: CallContext): Promise<ListModelsResponse>;
  getModel(id: string, ctx: CallContext): Promise<Model>;
  /** Yields the whole list of models first, then every change, until `ctx.signal` aborts. */
  watchModels(ctx: CallContext): AsyncIterable<WatchModelsResponse>;
}
