import { create } from "@bufbuild/protobuf";
import {
  type Completion,
  type CompletionChunk,
  type CompletionChunkChoice,
  type CompletionLogprobs,
  CompletionSchema,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { GenEvent, TokenLogprobInfo } from "../engine/engine.js";
import {
  type AnswerIdentity,
  characters,
  completionLogprobs,
  type StreamAssembly,
  usageMessage,
  type WholeAssembly,
} from "./answer-parts.js";

/** Chunks of a streamed text completion: no role and no delta (CMPL-6). Literals, as in ChatStream. */
export class CompletionStream implements StreamAssembly<CompletionChunk> {
  readonly #identity: AnswerIdentity;
  /** Characters of each choice so far, for log probabilities. */
  readonly #offsets: number[] = [];

  constructor(identity: AnswerIdentity) {
    this.#identity = identity;
  }

  take(choice: number, event: GenEvent): readonly CompletionChunk[] {
    if (event.type === "text")
      return [this.#chunk([choiceOf(choice, event.text, undefined, this.#logprobs(choice, event))])];
    if (event.type === "finish") return [this.#chunk([choiceOf(choice, "", event.reason)])];
    return [];
  }

  last(usage: UsageTotal): CompletionChunk {
    return { ...this.#chunk([]), usage: usageMessage(usage) };
  }

  #logprobs(choice: number, event: Extract<GenEvent, { type: "text" }>): CompletionLogprobs | undefined {
    if (event.logprobs === undefined) return undefined;
    const offset = this.#offsets[choice] ?? 0;
    this.#offsets[choice] = offset + characters(event.text);
    return completionLogprobs(event.logprobs, offset);
  }

  #chunk(choices: CompletionChunkChoice[]): CompletionChunk {
    return {
      $typeName: "unified.inference.v1.CompletionChunk",
      id: this.#identity.id,
      created: this.#identity.created,
      model: this.#identity.model,
      choices,
      systemFingerprint: this.#identity.fingerprint,
    };
  }
}

function choiceOf(
  index: number,
  text: string,
  finishReason?: string,
  logprobs?: CompletionLogprobs,
): CompletionChunkChoice {
  const choice: CompletionChunkChoice = { $typeName: "unified.inference.v1.CompletionChunkChoice", index, text };
  if (finishReason !== undefined) choice.finishReason = finishReason;
  if (logprobs !== undefined) choice.logprobs = logprobs;
  return choice;
}

interface Choice {
  text: string;
  finishReason: string;
  logprobs: TokenLogprobInfo[] | null;
}

/** A whole text completion. */
export class CompletionWhole implements WholeAssembly<Completion> {
  readonly #identity: AnswerIdentity;
  readonly #choices: Choice[];

  constructor(identity: AnswerIdentity, choices: number) {
    this.#identity = identity;
    this.#choices = Array.from({ length: choices }, () => ({ text: "", finishReason: "", logprobs: null }));
  }

  take(index: number, event: GenEvent): void {
    const choice = this.#choices[index];
    if (choice === undefined) return;
    if (event.type === "finish") choice.finishReason = event.reason;
    if (event.type !== "text") return;
    choice.text += event.text;
    if (event.logprobs !== undefined) choice.logprobs = [...(choice.logprobs ?? []), ...event.logprobs];
  }

  build(usage: UsageTotal): Completion {
    return create(CompletionSchema, {
      id: this.#identity.id,
      created: this.#identity.created,
      model: this.#identity.model,
      choices: this.#choices.map(({ text, finishReason, logprobs }, index) => ({
        index,
        text,
        finishReason,
        ...(logprobs === null ? {} : { logprobs: completionLogprobs(logprobs, 0) }),
      })),
      usage: usageMessage(usage),
      systemFingerprint: this.#identity.fingerprint,
    });
  }
}
