import type { MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { create, type DescMessage, type DescMethodServerStreaming, type DescMethodUnary } from "@bufbuild/protobuf";
import type { Metadata } from "@grpc/grpc-js";
import {
  CatalogService,
  type ListModelsRequest,
  type ListModelsResponse,
  type WatchModelsResponse,
} from "../../gen/unified/catalog/v1/catalog_service_pb.js";
import { type Model, ModelSchema } from "../../gen/unified/catalog/v1/model_pb.js";
import {
  type ChatCompletion,
  type ChatCompletionChunk,
  ChatCompletionChunkSchema,
  type ChatCompletionParams,
  ChatCompletionSchema,
} from "../../gen/unified/inference/v1/chat_pb.js";
import {
  type Completion,
  type CompletionChunk,
  CompletionChunkSchema,
  type CompletionParams,
  CompletionSchema,
} from "../../gen/unified/inference/v1/completion_pb.js";
import {
  type EmbeddingList,
  EmbeddingListSchema,
  type EmbeddingParams,
} from "../../gen/unified/inference/v1/embedding_pb.js";
import { type CountTokensResponse, InferenceService } from "../../gen/unified/inference/v1/inference_service_pb.js";
import { type Ranking, RankingSchema, type RerankParams } from "../../gen/unified/inference/v1/rerank_pb.js";
import { headers } from "../contract/headers.js";
import type { ServiceLimits } from "../contract/limits.js";
import type { Operation } from "../contract/operations.js";
import { Call } from "../domain/call/call.js";
import type { Answer, AnswerHead, CallContext, Caller, StreamAnswer } from "../domain/call/call-context.js";
import { invariant, ServiceError } from "../domain/call/service-error.js";
import type { Core } from "../domain/core.js";
import { answerPrefixes, chatChunkBytes, type Piece } from "../domain/inference/chat-answer.js";
import { completionChunkBytes, validateCompletion } from "../domain/inference/completion.js";
import { validateEmbeddings } from "../domain/inference/embed.js";
import type { NativeOriginal } from "../domain/inference/native-chat.js";
import { validateRerank } from "../domain/inference/rerank.js";
import { validateChatCompletion } from "../domain/inference/validate-chat.js";
import { originalFields, readTranslatedHead } from "../domain/rpc/original-request.js";
import { callCore, type ItemForm, type RemoteCallDeps, streamFromCore, unchanged } from "./core-calls.js";
import { readHead, textOf } from "./read-answer.js";

export interface RemoteCoreDeps extends RemoteCallDeps {
  /** Opens calls on this machine, so that a wrong credential is refused without a call to a core. */
  readonly local: Pick<Core, "open"> & { refuseNewCalls(): void };
  readonly limits: ServiceLimits;
}

const { method: rpcs } = InferenceService;
const { method: catalogRpcs } = CatalogService;

/**
 * The `Core` of a gateway. It authenticates and validates calls itself and runs them on a core server through the public
 * gRPC services. The core server decides whether a call is admitted, and charges its cost.
 */
export class RemoteCore implements Core {
  readonly #deps: RemoteCoreDeps;

  constructor(deps: RemoteCoreDeps) {
    this.#deps = deps;
  }

  open(operation: Operation, caller: Caller): CallContext | Promise<CallContext> {
    return this.#deps.local.open(operation, caller);
  }

  refuseNewCalls(): void {
    this.#deps.local.refuseNewCalls();
  }

  async createChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<Answer<Piece<ChatCompletion>>> {
    const call = this.#valid(ctx, () => validateChatCompletion(params, this.#deps.limits));
    const fields = { params, ...originalOf(native) };
    const { message, head, metadata } = await this.#run(call, rpcs.createChatCompletion, params.model, fields);
    const { completion = create(ChatCompletionSchema), native: text } = message;
    noteOffer(native, metadata);
    const body = { ...completion, id: idFor(call, completion.id) };
    return { head, body: text === "" ? body : { ...body, native: text } };
  }

  async streamChatCompletion(
    params: ChatCompletionParams,
    ctx: CallContext,
    native?: NativeOriginal,
  ): Promise<StreamAnswer<Piece<ChatCompletionChunk>>> {
    const call = this.#valid(ctx, () => validateChatCompletion(params, this.#deps.limits));
    const fields = { params, ...originalOf(native) };
    const { metadata, ...answer } = await this.#stream(call, rpcs.streamChatCompletion, params.model, fields, {
      read: ({ chunk = create(ChatCompletionChunkSchema), native: text }): Piece<ChatCompletionChunk> =>
        text === "" ? chunk : { ...chunk, native: text },
      sizeOf: chatChunkBytes,
    });
    noteOffer(native, metadata);
    const translated = readTranslatedHead(textOf(metadata, headers.answer));
    const { promptTokens = 0, cachedTokens = 0, id = "" } = translated ?? {};
    return { ...answer, id: idFor(call, id), promptUsage: () => ({ promptTokens, cachedTokens }) };
  }

  async createCompletion(params: CompletionParams, ctx: CallContext): Promise<Answer<Completion>> {
    const call = this.#valid(ctx, () => validateCompletion(params, this.#deps.limits));
    const { message, head } = await this.#run(call, rpcs.createCompletion, params.model, { params });
    return { head, body: message.completion ?? create(CompletionSchema) };
  }

  async streamCompletion(params: CompletionParams, ctx: CallContext): Promise<StreamAnswer<CompletionChunk>> {
    const call = this.#valid(ctx, () => validateCompletion(params, this.#deps.limits));
    const { metadata: _, ...answer } = await this.#stream(
      call,
      rpcs.streamCompletion,
      params.model,
      { params },
      {
        read: ({ chunk = create(CompletionChunkSchema) }) => chunk,
        sizeOf: completionChunkBytes,
      },
    );
    return { ...answer, id: "", promptUsage: () => ({ promptTokens: 0, cachedTokens: 0 }) };
  }

  async createEmbeddings(params: EmbeddingParams, ctx: CallContext): Promise<Answer<EmbeddingList>> {
    const call = this.#valid(ctx, () => validateEmbeddings(params, this.#deps.limits));
    const { message, head } = await this.#run(call, rpcs.createEmbeddings, params.model, { params });
    return { head, body: message.embeddings ?? create(EmbeddingListSchema) };
  }

  async rerank(params: RerankParams, ctx: CallContext): Promise<Answer<Ranking>> {
    const call = this.#valid(ctx, () => validateRerank(params));
    const { message, head } = await this.#run(call, rpcs.rerank, params.model, { params });
    return { head, body: message.ranking ?? create(RankingSchema) };
  }

  async countTokens(params: ChatCompletionParams, ctx: CallContext): Promise<Answer<CountTokensResponse>> {
    const call = this.#valid(ctx, () => validateChatCompletion(params, this.#deps.limits));
    const { message, head } = await this.#run(call, rpcs.countTokens, params.model, { params });
    return { head, body: message };
  }

  async listModels({ pageSize, pageToken }: ListModelsRequest, ctx: CallContext): Promise<ListModelsResponse> {
    const fields = { pageSize, pageToken };
    return (await callCore(this.#deps, callOf(ctx), catalogRpcs.listModels, fields)).message;
  }

  async getModel(id: string, ctx: CallContext): Promise<Model> {
    const { message } = await callCore(this.#deps, callOf(ctx), catalogRpcs.getModel, { id });
    return message.model ?? create(ModelSchema);
  }

  async *watchModels(ctx: CallContext): AsyncIterable<WatchModelsResponse> {
    const call = callOf(ctx);
    call.watching();
    const { items } = await streamFromCore(this.#deps, call, catalogRpcs.watchModels, {}, unchanged());
    yield* items;
  }

  /**
   * Validates a request like a core server: a valid one can be encoded, and an invalid one needs no call to a core. Throws
   * ServiceError, for which the caller is charged one request.
   */
  #valid(ctx: CallContext, validate: () => void): Call {
    const call = callOf(ctx);
    try {
      validate();
    } catch (thrown) {
      if (thrown instanceof ServiceError) call.refused(thrown);
      throw thrown;
    }
    return call;
  }

  /** Calls a unary RPC that runs a model. */
  async #run<I extends DescMessage, O extends DescMessage>(
    call: Call,
    rpc: DescMethodUnary<I, O>,
    model: string,
    fields: MessageInitShape<I>,
  ) {
    const { message, head: metadata } = await callCore(this.#deps, call, rpc, fields);
    const head = readHead(metadata);
    noteRoute(call, model, head);
    return { message, head, metadata };
  }

  async #stream<I extends DescMessage, O extends DescMessage, M>(
    call: Call,
    rpc: DescMethodServerStreaming<I, O>,
    model: string,
    fields: MessageInitShape<I>,
    form: ItemForm<MessageShape<O>, M>,
  ) {
    const { metadata, items, route } = await streamFromCore(this.#deps, call, rpc, fields, form);
    const head = readHead(metadata);
    noteRoute(call, model, head);
    return { metadata, head, items, route };
  }
}

export function callOf(ctx: CallContext): Call {
  invariant(ctx instanceof Call, "the context was created by open");
  return ctx;
}

/** Records the model and the route for the log and the metrics. A model that has answered exists, so its name is safe there. */
function noteRoute(call: Call, model: string, { deployment, attempts, fallbackModel }: AnswerHead): void {
  call.model = model;
  if (attempts > 0) call.route = { deployment, attempts, fallbackModel };
}

function originalOf(native: NativeOriginal | undefined) {
  return native === undefined ? {} : { original: originalFields(native) };
}

/** Records for the writer of the answer whether the upstream may answer in the request's own API. */
function noteOffer(native: NativeOriginal | undefined, metadata: Metadata): void {
  if (native === undefined) return;
  native.isOffered = readTranslatedHead(textOf(metadata, headers.answer))?.isOffered === true;
}

const chatPrefix = "chatcmpl-";

/** Gives an id the prefix of the operation. A core that does not trust the gateway returns the prefix of a chat completion. */
function idFor({ operation }: Call, id: string): string {
  const prefix = answerPrefixes.get(operation);
  return prefix !== undefined && id.startsWith(chatPrefix) ? prefix + id.slice(chatPrefix.length) : id;
}
