import type { ChildInput, TemplateMessage } from "../protocol.js";
import type { OutputPlan } from "../tools/output-plan.js";
import { type ChatTemplate, endsInThinking, type TemplateInput } from "./chat-template.js";
import { ControlMarks, type PromptPiece } from "./control-marks.js";
import { controlTextsOf } from "./control-texts.js";
import { mapMemberTexts, mapTexts } from "./map-texts.js";
import { withoutToolTurns } from "./tool-turns.js";

export type { PromptPiece } from "./control-marks.js";

type ChatInput = Extract<ChildInput, { type: "chat" }>;

/**
 * The prompt of a chat, in order. `controlTexts`: the texts of the vocabulary's control tokens, always the same list for
 * one model. Throws as `ChatTemplate.render` does.
 */
export function promptPieces(
  template: ChatTemplate,
  input: ChatInput,
  plan: OutputPlan,
  controlTexts: readonly string[],
): readonly PromptPiece[] {
  const asked = templateInput(template, input, plan);
  const marks = new ControlMarks(controlTextsOf(controlTexts), asked);
  const put = (text: string): string => marks.put(text);
  const rendered = template.render({
    messages: mapTexts(asked.messages, put),
    tools: mapTexts(asked.tools, put),
    variables: mapMemberTexts(asked.variables, put),
  });
  const pieces = marks.take(rendered);
  // A grammar knows no thoughts, so they are ended where the template opens them in any case.
  const endsThinking = plan.grammar !== null && template.thinks && endsInThinking(rendered);
  if (!endsThinking) return pieces;
  return [...pieces, { text: `${rendered.endsWith("\n") ? "" : "\n"}\n</think>\n\n`, control: true }];
}

function templateInput(template: ChatTemplate, input: ChatInput, plan: OutputPlan): TemplateInput {
  const messages = template.toolFormat === null ? withoutToolTurns(input.messages) : input.messages;
  return {
    messages: plan.extraSystem === null ? messages : withSystem(messages, plan.extraSystem),
    tools: plan.templateTools,
    variables: plan.grammar === null ? input.templateVariables : { ...input.templateVariables, enable_thinking: false },
  };
}

function withSystem(messages: readonly TemplateMessage[], text: string): readonly TemplateMessage[] {
  const [first, ...others] = messages;
  if (first?.role !== "system") return [{ role: "system", content: text }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${text}` }, ...others];
}
