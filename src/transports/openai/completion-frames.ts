import type { CompletionChunk } from "../../../gen/unified/inference/v1/completion_pb.js";
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
    const logprobs = JSON.stringify(completionLogprobsToJson(choice.logprobs));
    return this.#template.choice(choiceJson(choice.text, choice.index, logprobs, choice.finishReason));
  }

  keepAlive(): string | null {
    if (this.#template === undefined || this.#openChoice === undefined) return null;
    return this.#template.choice(choiceJson("", this.#openChoice, "null"));
  }
}

function choiceJson(text: string, index: number, logprobs: string, finishReason?: string): string {
  const reason = finishReason === undefined ? "null" : JSON.stringify(finishReason);
  return `{"text":${JSON.stringify(text)},"index":${index},"logprobs":${logprobs},"finish_reason":${reason}}`;
}
