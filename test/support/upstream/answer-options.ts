import type { GenerateRequest } from "../../../src/domain/engine/engine.js";
import type { AnswerOptions } from "../../../src/engines/openai/answer/answer-events.js";
import { ChunkForms } from "../../../src/engines/openai/answer/chunk-forms.js";

/** Options for the answer to a request; ids of calls are counted. */
export function answerOptions(request: GenerateRequest, forms = new ChunkForms()): AnswerOptions {
  const { input } = request;
  let calls = 0;
  return {
    choices: request.n,
    logprobs: request.logprobs,
    isEchoedByServer: request.echo === true,
    isForced: "messages" in input && ["required", "named"].includes(input.toolChoice.mode),
    parallelToolCalls: !("messages" in input) || input.parallelToolCalls,
    joins: request.deltas === "joined",
    forms,
    fingerprint: "",
    echo: "",
    isEchoOnly: false,
    estimatedPromptTokens: () => 7,
    newCallId: () => `call_${++calls}`,
  };
}
