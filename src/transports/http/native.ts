import { type ChatCompletionParams, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { NativeApi } from "../../domain/engine/upstream.js";
import type { Piece } from "../../domain/inference/chat-answer.js";
import type { NativeOriginal } from "../../domain/inference/native-chat.js";
import type { JsonObject } from "./json-object.js";
import type { StreamFrames } from "./stream.js";

/** A request that was translated to a chat request, together with its original. */
export interface Translated<T> {
  readonly translation: T;
  /** The original; undefined: it must not be sent to an upstream. */
  readonly native: NativeOriginal | undefined;
}

/** Fields of the original that are replaced when it is sent to an upstream. */
const replaced: ReadonlySet<string> = new Set(["model", "stream"]);

/**
 * Translates a body to a chat request and keeps the original for upstreams that support its API. If `read` refuses the body
 * because chat cannot express it, `opaque` creates the translation from the text of the body, and only such an upstream can
 * run the request. Throws ServiceError for a body without a model.
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
    // An upstream would run a background response after the call, outside the limits of this service.
    if (body.fields["background"] === true) throw thrown;
    return { translation: opaque(opaqueParams(body)), native: original(thrown) };
  }
}

/** Parameters for a request that the core cannot interpret: they suffice to find the model and to estimate the tokens. */
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

/** The writer of the events of an answer to a translated request. */
export function translatedFrames<M>(
  frames: StreamFrames<M>,
  native: NativeOriginal | undefined,
): StreamFrames<Piece<M>> {
  return native?.isOffered === true ? new NativeFrames(frames) : frames;
}

/** Writes a stream that an upstream may answer in the request's own API: its events unchanged, else the translated events. */
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

  /** Null before the first item, because it is not known yet whether the events are the upstream's. */
  keepAlive(): string | null {
    return this.#hasBegun && !this.#isNative ? this.#frames.keepAlive() : null;
  }
}
