import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import { sseEventEnd, sseEventStart } from "../../lib/sse.js";
import { usageJson } from "./write-usage.js";

/** Turns the chunks of one stream into SSE events. */
export interface ChunkFrames<C> {
  /** The event of a chunk; null when this stream does not show it. */
  frame(chunk: C): string | null;
  /** A chunk that says nothing, for readers that need events and not comments (SSE-9); null when none can be sent. */
  keepAlive(): string | null;
}

/** What the chunks of chat and of text completions share. */
interface AnyChunk {
  readonly id: string;
  readonly created: bigint;
  readonly model: string;
  readonly systemFingerprint: string;
  readonly serviceTier?: string | undefined;
}

/**
 * The parts of an event that are equal in all chunks of a stream: everything around the choice. Made once per stream,
 * so that a token costs the escaping of its text and two concatenations (performance 6).
 */
export class FrameTemplate {
  readonly #includeUsage: boolean;
  /** Up to and with the opening bracket of `choices`. */
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

  /** With usage asked for, every chunk but the last says null (STRM-10); without, none has the key (STRM-11). */
  choice(choiceJson: string): string {
    return this.#prefix + choiceJson + this.#suffix;
  }

  /** The core always ends with the usage; it is shown when it was asked for. */
  usage(usage: Usage | undefined): string | null {
    if (!this.#includeUsage || usage === undefined) return null;
    return `${this.#prefix}],"usage":${usageJson(usage)}}${sseEventEnd}`;
  }
}
