import { create } from "@bufbuild/protobuf";
import {
  ListModelsResponseSchema,
  WatchModelsResponseSchema,
} from "../../gen/unified/catalog/v1/catalog_service_pb.js";
import { ModelSchema } from "../../gen/unified/catalog/v1/model_pb.js";
import {
  type ChatCompletionChunk,
  ChatCompletionChunkSchema,
  type ChatCompletionParams,
  ChatCompletionSchema,
} from "../../gen/unified/inference/v1/chat_pb.js";
import { type CompletionChunk, CompletionSchema } from "../../gen/unified/inference/v1/completion_pb.js";
import { EmbeddingListSchema } from "../../gen/unified/inference/v1/embedding_pb.js";
import { CountTokensResponseSchema } from "../../gen/unified/inference/v1/inference_service_pb.js";
import { RankingSchema } from "../../gen/unified/inference/v1/rerank_pb.js";
import type { ErrorCode } from "../../src/contract/errors.js";
import { defaultLimits } from "../../src/contract/limits.js";
import type { Operation } from "../../src/contract/operations.js";
import type { AnswerHead, AnswerRoute } from "../../src/domain/call/call-context.js";
import {
  type CallContext,
  type Caller,
  Ended,
  type EndReason,
  errorOfEnd,
} from "../../src/domain/call/call-context.js";
import { tokenAdministrator } from "../../src/domain/call/principal.js";
import type { Core } from "../../src/domain/core.js";
import type { NativeOriginal } from "../../src/domain/inference/native-chat.js";
import { type ArrivingItems, StreamBuffer, StreamBuffers } from "../../src/lib/collections.js";
import { silentLog } from "./silent-log.js";

export const handCredential = "Bearer good";

const route: AnswerRoute = { deployment: "m/0", attempts: 1, fallbackModel: null };
const head: AnswerHead = { ...route, degraded: false, queueMs: 0 };
/** The route at the end of an answer that another deployment took over after the headers. */
const finalRoute = (): AnswerRoute => ({ deployment: "m/1", attempts: 2, fallbackModel: "n" });

const streamed = {
  id: "chatcmpl-1",
  head,
  route: finalRoute,
  promptUsage: () => ({ promptTokens: 3, cachedTokens: 1 }),
};

/** Items of which none has arrived before it is awaited. */
function arriving<T>(items: AsyncIterable<T>): ArrivingItems<T> {
  return { [Symbol.asyncIterator]: () => items[Symbol.asyncIterator](), takeNow: () => undefined };
}

/** A chunk with text only. */
export function textChunk(content: string, index = 0): ChatCompletionChunk {
  return create(ChatCompletionChunkSchema, { id: "chatcmpl-1", model: "m", choices: [{ index, delta: { content } }] });
}

/** One opened call, for a test to inspect. */
export interface HandCall {
  readonly operation: Operation;
  readonly caller: Caller;
  closed: number;
  /** Code of the error that the transport sent to its client; null: none. */
  refused: ErrorCode | null;
}

/** A core whose answers are set by the test; for tests of transports. */
export class HandCore implements Core {
  readonly calls: HandCall[] = [];
  /** What the transports hold for slow readers. */
  readonly buffers = new StreamBuffers(defaultLimits);
  /** Runs before a call is opened; an error that it throws is the rejection. */
  beforeOpen: (caller: Caller) => Promise<void> | void = () => {};
  /** Returns the text of chat answers. */
  chat: (params: ChatCompletionParams, ctx: CallContext) => Promise<string> | string = () => "Hello.";
  chunks: (params: ChatCompletionParams, ctx: CallContext) => AsyncIterable<ChatCompletionChunk> = async function* () {
    yield textChunk("Hel");
    yield textChunk("lo.");
  };
  readonly #waiting: (() => void)[] = [];

  get last(): HandCall {
    const call = this.calls.at(-1);
    if (call === undefined) throw new Error("no call was opened");
    return call;
  }

  /** Why a call's signal was aborted; null if it was not. */
  whyEnded({ caller }: HandCall): EndReason | null {
    const { signal } = caller.abort;
    if (!signal.aborted) return null;
    return signal.reason instanceof Ended ? signal.reason.why : "failed";
  }

  /** Resolves when the given number of calls was opened. */
  async opened(count = 1): Promise<HandCall> {
    while (this.calls.length < count) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.last;
  }

  async open(operation: Operation, caller: Caller): Promise<CallContext> {
    await this.beforeOpen(caller);
    const call: HandCall = { operation, caller, closed: 0, refused: null };
    this.calls.push(call);
    for (const wake of this.#waiting.splice(0)) wake();
    const buffer = new StreamBuffer(this.buffers);
    return {
      requestId: caller.requestId ?? "req_none",
      principal: tokenAdministrator,
      address: caller.address,
      browser: caller.browser ?? null,
      operation,
      signal: caller.abort.signal,
      deadlineAtMs: caller.deadlineAtMs,
      receivedAtMs: 0,
      log: silentLog,
      buffer,
      refused({ code }) {
        call.refused ??= code;
      },
      watching() {},
      close() {
        call.closed += 1;
        buffer.close();
      },
    };
  }

  async createChatCompletion(params: ChatCompletionParams, ctx: CallContext, native?: NativeOriginal) {
    if (native?.refusal) throw native.refusal;
    const content = await this.chat(params, ctx);
    return { head, body: create(ChatCompletionSchema, { model: params.model, choices: [{ message: { content } }] }) };
  }

  async streamChatCompletion(params: ChatCompletionParams, ctx: CallContext, native?: NativeOriginal) {
    if (native?.refusal) throw native.refusal;
    return { ...streamed, items: arriving(this.chunks(params, ctx)) };
  }

  async createCompletion() {
    return { head, body: create(CompletionSchema, { choices: [{ text: "Hello." }] }) };
  }

  async streamCompletion() {
    return { ...streamed, items: arriving<CompletionChunk>((async function* () {})()) };
  }

  async createEmbeddings() {
    return { head, body: create(EmbeddingListSchema, { model: "m" }) };
  }

  async rerank() {
    return { head, body: create(RankingSchema, { model: "m" }) };
  }

  async countTokens() {
    return { head, body: create(CountTokensResponseSchema, { promptTokens: 3 }) };
  }

  async listModels() {
    return create(ListModelsResponseSchema, { models: [{ id: "m" }] });
  }

  async getModel(id: string) {
    return create(ModelSchema, { id });
  }

  async *watchModels(ctx: CallContext) {
    yield create(WatchModelsResponseSchema, { models: [{ id: "m" }] });
    await untilAborted(ctx.signal);
  }
}

/** Never resolves; rejects as the core does once the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const end = (): void => reject(errorOfEnd(signal.reason));
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}

/** A stream without output until the signal aborts. */
export function silentUntilAborted(signal: AbortSignal): AsyncIterable<never> {
  return { [Symbol.asyncIterator]: () => ({ next: () => untilAborted(signal) }) };
}
