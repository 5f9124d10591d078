import type { GenerateInput, GenerateRequest } from "../../domain/engine/engine.js";
import type { ChildGenerate, ChildInput } from "./protocol.js";
import { templateVariables, toTemplateMessages, toTemplateTools } from "./text/template-input.js";

/** What the child gets of a request: no protobuf messages, and nothing that only the server needs. */
export function toChildGenerate(request: GenerateRequest): ChildGenerate {
  const { input, n, deadlineAtMs, queueMs, reasoningEffort, chatTemplateKwargsJson, ...rest } = request;
  return { ...rest, input: toChildInput(input, templateVariables(request)) };
}

export function toChildInput(input: GenerateInput, variables: Readonly<Record<string, unknown>>): ChildInput {
  if ("messages" in input) {
    return {
      type: "chat",
      messages: toTemplateMessages(input.messages),
      tools: toTemplateTools(input.tools),
      toolChoice: input.toolChoice,
      parallelToolCalls: input.parallelToolCalls,
      templateVariables: variables,
    };
  }
  const { prompt } = input;
  return typeof prompt === "string" ? { type: "text", text: prompt } : { type: "tokens", tokens: prompt };
}
