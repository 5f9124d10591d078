import type { ChatCompletionChunk, ChatCompletionParams } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { ServiceError } from "../call/service-error.js";
import type { Capabilities, GenEvent, GenerateRequest, RequestDefaults } from "../engine/engine.js";
import type { NativeRequest } from "../engine/native-request.js";
import { type ChatStream, chatChunkBytes, type Piece, type StreamAssembly } from "./chat-answer.js";
import { RunPlan, toChatRequest } from "./chat-request.js";

/** The original request of another API family (such as Anthropic's), kept in addition to its translation to a chat request. */
export interface NativeOriginal extends NativeRequest {
  /** Why chat cannot express it, so that only an upstream with its API can run it; null: chat can. */
  readonly refusal: ServiceError | null;
  /**
   * Whether the requested model has a deployment with the API; null until the core has found the model. If it has none,
   * fallback models also get the translated request, because a stream that began with translated chunks cannot switch to
   * native ones.
   */
  isOffered: boolean | null;
}

/** Plans the engine run. `candidates`: capabilities of the deployments, at least one. Throws ServiceError when none can run it. */
export function planNativeOrChat(
  params: ChatCompletionParams,
  original: NativeOriginal,
  candidates: readonly Capabilities[],
  defaults: RequestDefaults | null,
): RunPlan {
  original.isOffered ??= candidates.some(({ native }) => native?.includes(original.api));
  return new RunPlan((caps) => [toNativeOrChat(params, original, caps, defaults)], candidates);
}

/**
 * Builds the engine request for a deployment: the original request if the deployment has its API, else the translation.
 * Throws ServiceError for a feature that the model does not support. An original request is not checked and gets no defaults
 * of the model.
 */
function toNativeOrChat(
  params: ChatCompletionParams,
  original: NativeOriginal,
  caps: Capabilities,
  defaults: RequestDefaults | null,
): GenerateRequest {
  if (original.isOffered !== true || caps.native?.includes(original.api) !== true) {
    if (original.refusal !== null) throw original.refusal;
    return toChatRequest(params, caps, defaults);
  }
  const { messages, promptCacheKey } = params;
  return {
    // For the reservation of tokens and the affinity.
    input: { messages, tools: params.tools, toolChoice: { mode: "auto" }, parallelToolCalls: true },
    n: 1,
    maxTokens: params.maxCompletionTokens ?? params.maxTokens ?? null,
    stop: [],
    native: original,
    ...(promptCacheKey === undefined ? {} : { passOn: { promptCacheKey } }),
    requestId: "",
    queueMs: 0,
    cacheKey: "",
    deltas: "joined",
  };
}

/**
 * Chunks of a stream whose answer is either native (the upstream's own text, passed on unchanged) or a chat; the first event
 * decides. The last part of a native answer is held back until the request is settled.
 */
export class NativeOrChatStream implements StreamAssembly<Piece<ChatCompletionChunk>> {
  readonly #chat: ChatStream;
  #last = "";

  constructor(chat: ChatStream) {
    this.#chat = chat;
  }

  take(choice: number, event: GenEvent): readonly Piece<ChatCompletionChunk>[] {
    if (event.type !== "native") return this.#last !== "" ? [] : this.#chat.take(choice, event);
    if (event.isLast) {
      this.#last += event.text;
      return [];
    }
    const chunk: Piece<ChatCompletionChunk> = this.#chat.empty();
    chunk.native = event.text;
    return [chunk];
  }

  last(usage: UsageTotal): Piece<ChatCompletionChunk> {
    const last: Piece<ChatCompletionChunk> = this.#chat.last(usage);
    if (this.#last !== "") last.native = this.#last;
    return last;
  }

  bytesOf(chunk: Piece<ChatCompletionChunk>): number {
    return chatChunkBytes(chunk);
  }
}
