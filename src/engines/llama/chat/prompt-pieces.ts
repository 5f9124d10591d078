import type { ChildInput, TemplateMessage, TemplateToolCall } from "../protocol/protocol.js";
import { type ChatTemplate, endsInThinking, type TemplateInput } from "./chat-template.js";
import { ControlMarks, controlTextsOf, mapMemberTexts, mapTexts, type PromptPiece } from "./control-marks.js";
import type { OutputPlan } from "./output-plan.js";

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

/**
 * A conversation for a template that knows no tools: calls become part of what the assistant said, in the form in which
 * we ask for them, and results become what the user said.
 */
export function withoutToolTurns(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  const turns: TemplateMessage[] = [];
  let results: string[] = [];
  const endResults = (): void => {
    if (results.length > 0) turns.push({ role: "user", content: results.join("\n") });
    results = [];
  };
  for (const message of messages) {
    if (message.role === "tool") {
      results.push(`<tool_response>\n${message.content}\n</tool_response>`);
    } else {
      endResults();
      turns.push(withCallsAsText(message));
    }
  }
  endResults();
  return turns;
}

function withCallsAsText(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls, ...rest } = message;
  if (calls === undefined || calls.length === 0) return message;
  const said = message.content === "" ? [] : [message.content];
  return { ...rest, content: [...said, ...calls.map(callText)].join("\n") };
}

function callText({ function: { name, arguments: args } }: TemplateToolCall): string {
  return `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
}
