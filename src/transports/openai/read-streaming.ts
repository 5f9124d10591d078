import type { JsonObject } from "./json-object.js";

/** How the answer is wanted. Only REST asks for it in the body: elsewhere it is the choice of the RPC. */
export interface Streaming {
  readonly stream: boolean;
  /** Whether the stream ends with a chunk of usage (STRM-10). */
  readonly includeUsage: boolean;
}

export function readStreaming(body: JsonObject): Streaming {
  const options = body.object("stream_options");
  // Accepted, but nothing is ever padded (CHAT-19).
  options?.boolean("include_obfuscation");
  return {
    stream: body.boolean("stream") ?? false,
    includeUsage: options?.boolean("include_usage") ?? false,
  };
}

/** Fields that readStreaming reads. */
export const streamingFields = ["stream", "stream_options"] as const;
