import type { Completion, CompletionChoice } from "../../../gen/unified/inference/v1/completion_pb.js";
import { completionLogprobsToJson } from "./write-logprobs.js";
import { usageToJson } from "./write-usage.js";

/** A whole text completion (CMPL-*). */
export function completionToJson(completion: Completion): object {
  return {
    id: completion.id,
    object: "text_completion",
    created: Number(completion.created),
    model: completion.model,
    choices: completion.choices.map(choiceToJson),
    ...(completion.usage && { usage: usageToJson(completion.usage) }),
    ...(completion.systemFingerprint !== "" && { system_fingerprint: completion.systemFingerprint }),
  };
}

function choiceToJson(choice: CompletionChoice): object {
  return {
    text: choice.text,
    index: choice.index,
    logprobs: completionLogprobsToJson(choice.logprobs),
    finish_reason: choice.finishReason,
  };
}
