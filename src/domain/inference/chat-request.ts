import {
  type ChatCompletionParams,
  type ContentPart,
  type Tool,
  ToolChoice_Mode,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { Capabilities, GenerateRequest, ToolChoiceSpec } from "./engine.js";
import type { GenerateBase } from "./generate-base.js";
import { refuseUnlessAble, refuseValueUnlessAble, toSampling } from "./sampling-request.js";

/**
 * What the engine is asked for a valid chat request. Refuses with `unsupported_parameter` or `unsupported_value` what
 * this model cannot do.
 */
export function toChatRequest(params: ChatCompletionParams, caps: Capabilities): GenerateBase {
  for (const [i, message] of params.messages.entries())
    for (const [j, part] of message.content.entries())
      refuseUnlessPartAble(part, caps, `messages[${i}].content[${j}]`, params.model);
  const { tools, toolChoice } = toolsToOffer(params);
  refuseUnlessToolsAble(tools, toolChoice, params, caps);
  const logprobs = params.logprobs === true ? (params.topLogprobs ?? 0) : undefined;
  refuseValueUnlessAble(
    caps.logprobs === 0 || (logprobs ?? 0) <= caps.logprobs,
    `More than ${caps.logprobs} alternatives per token are`,
    "top_logprobs",
    params.model,
  );
  const format = toFormat(params, caps);
  return {
    input: {
      messages: params.messages,
      tools,
      toolChoice,
      parallelToolCalls: caps.parallelTools && (params.parallelToolCalls ?? true),
    },
    ...toSampling(params, { maxTokens: params.maxCompletionTokens ?? params.maxTokens, logprobs }, caps),
    ...(format === undefined ? {} : { format }),
    ...(params.reasoningEffort === undefined ? {} : { reasoningEffort: params.reasoningEffort }),
    ...(params.chatTemplateKwargsJson === undefined ? {} : { chatTemplateKwargsJson: params.chatTemplateKwargsJson }),
  };
}

function refuseUnlessPartAble({ part }: ContentPart, caps: Capabilities, param: string, model: string): void {
  if (part.case === "imageUrl") refuseValueUnlessAble(caps.vision, "Images are", param, model);
  if (part.case === "inputAudio") refuseValueUnlessAble(false, "Audio input is", param, model);
  if (part.case === "file") refuseValueUnlessAble(false, "Files are", param, model);
}

/** The tools that may be called, and how; none when the choice is `none` (TOOL-3, TOOL-4, TOOL-6). */
function toolsToOffer({ tools, toolChoice }: ChatCompletionParams): {
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoiceSpec;
} {
  const named = (names: readonly string[]): Tool[] => tools.filter((tool) => names.includes(tool.function?.name ?? ""));
  const choice = toolChoice?.choice;
  switch (choice?.case) {
    case "function":
      return { tools: named([choice.value]), toolChoice: { mode: "named", name: choice.value } };
    case "allowed":
      return { tools: named(choice.value.names), toolChoice: { mode: modeOf(choice.value.mode) } };
    default: {
      const mode = tools.length === 0 ? "none" : modeOf(choice?.value ?? ToolChoice_Mode.AUTO);
      return { tools: mode === "none" ? [] : tools, toolChoice: { mode } };
    }
  }
}

function modeOf(mode: ToolChoice_Mode): "none" | "auto" | "required" {
  if (mode === ToolChoice_Mode.NONE) return "none";
  return mode === ToolChoice_Mode.REQUIRED ? "required" : "auto";
}

function refuseUnlessToolsAble(
  offered: readonly Tool[],
  choice: ToolChoiceSpec,
  params: ChatCompletionParams,
  caps: Capabilities,
): void {
  refuseUnlessAble(caps.tools !== "none" || offered.length === 0, "tools", params.model);
  refuseValueUnlessAble(
    caps.tools !== "forced-only" || choice.mode !== "auto",
    "Tool calls that the model may leave out (tool_choice 'auto') are",
    "tool_choice",
    params.model,
  );
  for (const tool of offered) {
    const param = `tools[${params.tools.indexOf(tool)}].function.strict`;
    refuseUnlessAble(caps.grammar || tool.function?.strict !== true, param, params.model);
  }
}

function toFormat(
  { responseFormat, model }: ChatCompletionParams,
  caps: Capabilities,
): GenerateRequest["format"] | undefined {
  const format = responseFormat?.format;
  if (format?.case !== "jsonObject" && format?.case !== "jsonSchema") return undefined;
  refuseValueUnlessAble(caps.jsonSchema !== "none", "Formats other than 'text' are", "response_format", model);
  if (format.case === "jsonObject") return { type: "json_object" };
  const { name, schemaJson, strict } = format.value;
  return { type: "json_schema", name, schemaJson: schemaJson ?? "{}", strict: strict ?? false };
}
