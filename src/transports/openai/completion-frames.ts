import type { CompletionChunk, CompletionLogprobs } from "../../../gen/unified/inference/v1/completion_pb.js";
import { jsonString } from "../../lib/json-string.js";
import { type ChunkFrames, FrameTemplate } from "./chunk-frames.js";
import { completionLogprobsToJson } from "./write-logprobs.js";

/** The frames of one text completion stream: no role and no delta (CMPL-6). */
export class CompletionFrames implements ChunkFrames<CompletionChunk> {
  readonly #includeUsage: boolean;
  #template: FrameTemplate | undefined;
  /** A choice that is not finished yet; undefined before the first chunk and when the latest was a finish. */
  #openChoice: number | undefined;

  constructor(includeUsage: boolean) {
    this.#includeUsage = includeUsage;
  }

  frame(chunk: CompletionChunk): string | null {
    this.#template ??= new FrameTemplate(chunk, "text_completion", this.#includeUsage);
    const [choice] = chunk.choices;
    if (choice === undefined) return this.#template.usage(chunk.usage);
    this.#openChoice = choice.finishReason === undefined ? choice.index : undefined;
    return this.#template.choice(completionChoiceJson(choice));
  }

  keepAlive(): string | null {
    if (this.#template === undefined || this.#openChoice === undefined) return null;
    return this.#template.choice(completionChoiceJson({ text: "", index: this.#openChoice }));
  }
}

interface AnyChoice {
  readonly text: string;
  readonly index: number;
  readonly logprobs?: CompletionLogprobs | undefined;
  readonly finishReason?: string | undefined;
}

/** A choice of a chunk or of a whole text completion: they look alike. */
export function completionChoiceJson({ text, index, logprobs, finishReason }: AnyChoice): string {
  const logprobsJson = logprobs === undefined ? "null" : JSON.stringify(completionLogprobsToJson(logprobs));
  const reason = finishReason === undefined ? "null" : jsonString(finishReason);
  return `{"text":${jsonString(text)},"index":${index},"logprobs":${logprobsJson},"finish_reason":${reason}}`;
}
