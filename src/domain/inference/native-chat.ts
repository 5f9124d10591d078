import type { ChatCompletionChunk, ChatCompletionParams } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { ServiceError } from "../call/service-error.js";
import type { Capabilities, GenEvent, GenerateRequest, RequestDefaults } from "../engine/engine.js";
import type { NativeRequest } from "../engine/native-request.js";
import type { ChatStream, Piece, StreamAssembly } from "./chat-answer.js";
import { RunPlan, toChatRequest } from "./chat-request.js";

/** The request of another API family beside its translation to chat. */
export interface NativeOriginal extends NativeRequest {
  /** Why chat cannot express it, so that only an upstream with its API can run it; null: chat can. */
  readonly refusal: ServiceError | null;
  /**
   * Whether the requested model has a deployment with the API; null until the core has found the model. Without one, fallback
   * models get the translation, too: a stream that has begun as one cannot become native.
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
 * Builds the engine request for a deployment: the original if it has the API, else the translation. Throws ServiceError for
 * what the model cannot do. The original is not checked, and gets no defaults of the model.
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
 * Chunks of a stream that may be answered natively: the first event decides. Of a native answer the last part is held, because
 * the end of a stream follows the settlement.
 */
export class NativeOrChatStream implements StreamAssembly<Piece<ChatCompletionChunk>> {
  readonly #chat: ChatStream;
  #last = "";

  constructor(chat: ChatStream) {
    this.#chat = chat;
  }

  take(choice: number, event: GenEvent): readonly Piece<ChatCompletionChunk>[] {
    if (event.type !== "native") return this.#last !== "" ? [] : this.#chat.take(choice, event);
    if (event.isLast) this.#last += event.text;
    return event.isLast ? [] : [{ ...this.#chat.empty(), native: event.text }];
  }

  last(usage: UsageTotal): Piece<ChatCompletionChunk> {
    const last = this.#chat.last(usage);
    return this.#last === "" ? last : { ...last, native: this.#last };
  }
}
