import type {
  CompletionChunk,
  CompletionChunkChoice,
  CompletionLogprobs,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import type { UsageTotal } from "../call/usage-tally.js";
import type { GenEvent } from "../engine/engine.js";
import type { AnswerIdentity } from "./answer-identity.js";
import type { StreamAssembly } from "./assembly.js";
import { characters, completionLogprobs } from "./logprob-messages.js";
import { usageMessage } from "./usage-message.js";

/** The chunks of a streamed text completion: no role, no delta (CMPL-6). Literals, as in ChatStream. */
export class CompletionStream implements StreamAssembly<CompletionChunk> {
  readonly #identity: AnswerIdentity;
  /** Characters of each choice so far; kept only where log probabilities need them. */
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
