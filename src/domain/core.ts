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
import type { Operation } from "../contract/operations.js";
import type { CallContext, Caller } from "./call-context.js";
import type { LimitSnapshot } from "./ledger.js";

/**
 * The service itself, for every door. A call is `open` on the headers, then one operation on the complete message, then
 * `ctx.close()`. All methods reject with ServiceError for everything a caller may be told.
 */
export interface Core {
  /**
   * Authenticates, authorizes and passes the gate, from headers alone: a refusal costs no body. Answers at once when
   * nothing has to be looked up; never throws, but rejects.
   */
  open(operation: Operation, caller: Caller): CallContext | Promise<CallContext>;
  createChatCompletion(params: ChatCompletionParams, ctx: CallContext): Promise<Answer<ChatCompletion>>;
  streamChatCompletion(params: ChatCompletionParams, ctx: CallContext): Promise<StreamAnswer<ChatCompletionChunk>>;
  createCompletion(params: CompletionParams, ctx: CallContext): Promise<Answer<Completion>>;
  streamCompletion(params: CompletionParams, ctx: CallContext): Promise<StreamAnswer<CompletionChunk>>;
  createEmbeddings(params: EmbeddingParams, ctx: CallContext): Promise<Answer<EmbeddingList>>;
  listModels(request: ListModelsRequest, ctx: CallContext): Promise<ListModelsResponse>;
  getModel(id: string, ctx: CallContext): Promise<Model>;
  /** First the whole list, then every change, until `ctx.signal` aborts. */
  watchModels(ctx: CallContext): AsyncIterable<WatchModelsResponse>;
}

/** Bytes in the shape of OpenAI's API that came from upstream and need no change. Only for calls that want them. */
export class OpenAiBytes {
  readonly bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** What is known when the answer is committed; doors turn it into headers. */
export interface AnswerHead {
  readonly limits?: LimitSnapshot;
  /** Limits were decided without the shared store. */
  readonly degraded: boolean;
  /** Which deployment answers: `<model>/<position>`. */
  readonly deployment: string;
  /** Deployments that were tried, the answering one included. */
  readonly attempts: number;
  /** Time spent waiting for a slot. */
  readonly queueMs: number;
}

export interface Answer<M> {
  readonly head: AnswerHead;
  readonly body: M | OpenAiBytes;
}

/**
 * Resolves when the answer is committed: at the first content, or limits.commitMs after the slot was granted. Before
 * that every failure is a rejection, after it `items` throws. The last item waits for the settlement. `items` is
 * iterated once; it must be iterated or the call's signal aborted.
 */
export interface StreamAnswer<M> {
  readonly head: AnswerHead;
  readonly items: AsyncIterable<M | OpenAiBytes>;
}
