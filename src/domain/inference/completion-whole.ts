import { create } from "@bufbuild/protobuf";
import { type Completion, CompletionSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import type { UsageTotal } from "../call/usage-tally.js";
import type { GenEvent, TokenLogprobInfo } from "../engine/engine.js";
import type { AnswerIdentity } from "./answer-identity.js";
import type { WholeAssembly } from "./assembly.js";
import { completionLogprobs } from "./logprob-messages.js";
import { usageMessage } from "./usage-message.js";

interface Choice {
  text: string;
  finishReason: string;
  logprobs: TokenLogprobInfo[] | null;
}

/** A text completion from all its events. */
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
