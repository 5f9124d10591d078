import type { TemplateMessage, TemplateToolCall } from "../protocol.js";

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
