import type { CompletionLogprobs } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { Logprobs, TopLogprob } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import { sseEventEnd, sseEventStart } from "../http/sse.js";

/** Turns the chunks of one stream into SSE events. */
export interface ChunkFrames<C> {
  /** The event of a chunk; null when this stream leaves it out. */
  frame(chunk: C): string | null;
  /** An empty chunk, for clients that need events instead of comments (SSE-9); null when none can be sent. */
  keepAlive(): string | null;
}

/** Fields that chunks of chat and of text completions share. */
interface AnyChunk {
  readonly id: string;
  readonly created: bigint;
  readonly model: string;
  readonly systemFingerprint: string;
  readonly serviceTier?: string | undefined;
}

/**
 * The parts of an event that are equal in all chunks of a stream: everything around the choice. Built once per stream,
 * so that a token costs the escaping of its text and two concatenations (performance 6).
 */
export class FrameTemplate {
  readonly #includeUsage: boolean;
  /** Up to the opening bracket of `choices`, inclusive. */
  readonly #prefix: string;
  /** From the closing bracket on, for chunks without usage. */
  readonly #suffix: string;

  constructor(chunk: AnyChunk, object: string, includeUsage: boolean) {
    const head = JSON.stringify({
      id: chunk.id,
      object,
      created: Number(chunk.created),
      model: chunk.model,
      ...(chunk.serviceTier !== undefined && { service_tier: chunk.serviceTier }),
      ...(chunk.systemFingerprint !== "" && { system_fingerprint: chunk.systemFingerprint }),
    });
    this.#includeUsage = includeUsage;
    this.#prefix = `${sseEventStart}${head.slice(0, -1)},"choices":[`;
    this.#suffix = `]${includeUsage ? ',"usage":null' : ""}}${sseEventEnd}`;
  }

  /** With usage requested, every chunk but the last has `null` (STRM-10); else none has the key (STRM-11). */
  choice(choiceJson: string): string {
    return this.#prefix + choiceJson + this.#suffix;
  }

  /** The core always ends with the usage; it is written when it was requested. */
  usage(usage: Usage | undefined): string | null {
    if (!this.#includeUsage || usage === undefined) return null;
    return `${this.#prefix}],"usage":${usageJson(usage)}}${sseEventEnd}`;
  }
}

/** The JSON of a completion's tokens, with their parts where the core knows them. */
export function usageJson(usage: Usage): string {
  const { promptTokensDetails: prompt, completionTokensDetails: completion } = usage;
  return (
    `{"prompt_tokens":${usage.promptTokens},"completion_tokens":${usage.completionTokens}` +
    `,"total_tokens":${usage.totalTokens}` +
    (prompt === undefined ? "" : `,"prompt_tokens_details":{"cached_tokens":${prompt.cachedTokens}}`) +
    (completion === undefined
      ? ""
      : `,"completion_tokens_details":{"reasoning_tokens":${completion.reasoningTokens}}`) +
    "}"
  );
}

/** OpenAI's stand-in for "never": JSON has no infinity, and clients reject null in its place (RESP-9). */
const never = -9999;

/** Log probabilities in the form of chat; all keys on every item. Null when none were requested. */
export function chatLogprobsToJson(logprobs: Logprobs | undefined): object | null {
  if (logprobs === undefined) return null;
  return {
    content: logprobs.content.map((token) => ({
      ...tokenToJson(token),
      top_logprobs: token.topLogprobs.map(tokenToJson),
    })),
    refusal: null,
  };
}

function tokenToJson({ token, logprob, utf8Bytes }: Omit<TopLogprob, "$typeName">): object {
  return { token, logprob: finite(logprob), bytes: utf8Bytes === undefined ? null : [...utf8Bytes] };
}

/** Log probabilities in the form of text completions: four lists of equal length. */
export function completionLogprobsToJson(logprobs: CompletionLogprobs | undefined): object | null {
  if (logprobs === undefined) return null;
  return {
    tokens: logprobs.tokens,
    // Not a number: the first token of an echoed prompt has no probability (CMPL-8).
    token_logprobs: logprobs.tokenLogprobs.map((value) => (Number.isNaN(value) ? null : finite(value))),
    top_logprobs: logprobs.topLogprobs.map(({ logprobs: alternatives }, i) =>
      Number.isNaN(logprobs.tokenLogprobs[i])
        ? null
        : Object.fromEntries(Object.entries(alternatives).map(([token, value]) => [token, finite(value)])),
    ),
    text_offset: logprobs.textOffset,
  };
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : never;
}
