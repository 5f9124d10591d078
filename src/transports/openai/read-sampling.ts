import { asNumber, type JsonObject } from "../http/json-object.js";

/**
 * The fields that chat and text completions share, for both protobuf messages. Only types are checked: ranges are checked
 * by the core, for all protocols.
 */
export function readSampling(body: JsonObject) {
  return {
    model: body.requiredString("model"),
    temperature: body.number("temperature"),
    topP: body.number("top_p"),
    n: body.int32("n"),
    maxTokens: body.int32("max_tokens"),
    stop: body.stringOrStrings("stop") ?? [],
    seed: body.int64("seed"),
    frequencyPenalty: body.number("frequency_penalty"),
    presencePenalty: body.number("presence_penalty"),
    logitBias: body.map("logit_bias", asNumber) ?? {},
    user: body.string("user"),
    topK: body.int32("top_k"),
    minP: body.number("min_p"),
    repetitionPenalty: body.number("repetition_penalty"),
  };
}

/** Fields that readSampling reads. */
export const samplingFields = [
  "model",
  "temperature",
  "top_p",
  "n",
  "max_tokens",
  "stop",
  "seed",
  "frequency_penalty",
  "presence_penalty",
  "logit_bias",
  "user",
  "top_k",
  "min_p",
  "repetition_penalty",
] as const;

/** How the answer is sent. Only REST has it in the body: elsewhere it is the choice of the RPC. */
export interface Streaming {
  readonly stream: boolean;
  /** Whether the stream ends with a chunk of usage (STRM-10). */
  readonly includeUsage: boolean;
}

export function readStreaming(body: JsonObject): Streaming {
  const options = body.object("stream_options");
  // Accepted without effect: chunks are not padded (CHAT-19).
  options?.boolean("include_obfuscation");
  return {
    stream: body.boolean("stream") ?? false,
    includeUsage: options?.boolean("include_usage") ?? false,
  };
}

/** Fields that readStreaming reads. */
export const streamingFields = ["stream", "stream_options"] as const;
