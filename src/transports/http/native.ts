import { type ChatCompletionParams, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { NativeApi } from "../../domain/engine/upstream.js";
import type { Piece } from "../../domain/inference/chat-answer.js";
import type { NativeOriginal } from "../../domain/inference/native-chat.js";
import type { JsonObject } from "./json-object.js";
import type { StreamFrames } from "./sse.js";

/** A request that was translated to chat, with its original. */
export interface Translated<T> {
  readonly translation: T;
  /** Undefined: no upstream may get it. */
  readonly native: NativeOriginal | undefined;
}

/** Fields that are replaced on the way to an upstream. */
const replaced: ReadonlySet<string> = new Set(["model", "stream"]);

/**
 * Translates a body to chat and keeps the original for upstreams that have its API. Where chat cannot express it, the
 * translation is made by `opaque` from parameters with the text of the body, and only such an upstream can run it. Throws
 * ServiceError for a body without a model.
 */
export function translate<T>(
  api: NativeApi,
  body: JsonObject,
  headers: Readonly<Record<string, string>>,
  read: (body: JsonObject) => T,
  opaque: (params: ChatCompletionParams) => T,
): Translated<T> {
  const original = (refusal: ServiceError | null): NativeOriginal => ({
    api,
    model: body.requiredString("model"),
    fieldsJson: () => body.unknownFields(replaced),
    headers,
    refusal,
    isOffered: null,
  });
  try {
    return { translation: read(body), native: original(null) };
  } catch (thrown) {
    if (!(thrown instanceof ServiceError) || body.fields["model"] === undefined) throw thrown;
    // It would run on without the limits of this service.
    if (body.fields["background"] === true) throw thrown;
    return { translation: opaque(opaqueParams(body)), native: original(thrown) };
  }
}

/** Parameters for what the core does without understanding the request: it finds the model, and estimates the tokens. */
function opaqueParams(body: JsonObject): ChatCompletionParams {
  const text = JSON.stringify(body.fields);
  const part = { $typeName: "unified.inference.v1.ContentPart", part: { case: "text", value: text } } as const;
  return {
    $typeName: "unified.inference.v1.ChatCompletionParams",
    model: body.requiredString("model"),
    messages: [{ $typeName: "unified.inference.v1.Message", role: Role.USER, content: [part], toolCalls: [] }],
    stop: [],
    logitBias: {},
    tools: [],
    metadata: {},
    modalities: [],
    passThroughJson: {},
  };
}

/** The events of a committed answer to a translated request. */
export function translatedFrames<M>(
  frames: StreamFrames<M>,
  native: NativeOriginal | undefined,
): StreamFrames<Piece<M>> {
  return native?.isOffered === true ? new NativeFrames(frames) : frames;
}

/** The events of a stream that may be answered natively: the upstream's as they are, else those of the translation. */
class NativeFrames<M> implements StreamFrames<Piece<M>> {
  readonly #frames: StreamFrames<M>;
  #hasBegun = false;
  #isNative = false;

  constructor(frames: StreamFrames<M>) {
    this.#frames = frames;
  }

  frame(item: Piece<M>): string {
    const begun = this.#hasBegun ? "" : item.native === undefined ? (this.#frames.begin?.() ?? "") : "";
    this.#hasBegun = true;
    if (item.native === undefined) return this.#isNative ? "" : begun + this.#frames.frame(item);
    this.#isNative = true;
    return item.native;
  }

  async beforeEnd(): Promise<void> {
    if (!this.#isNative) await this.#frames.beforeEnd?.();
  }

  end(): string {
    return this.#isNative ? "" : this.#frames.end();
  }

  failed(error: object): string {
    return this.#frames.failed?.(error) ?? `event: error\ndata: ${JSON.stringify(error)}\n\n`;
  }

  /** Before the first item it is not known whose events the stream has. */
  keepAlive(): string | null {
    return this.#hasBegun && !this.#isNative ? this.#frames.keepAlive() : null;
  }
}
