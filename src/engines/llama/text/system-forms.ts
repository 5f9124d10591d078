import type { TemplateMessage } from "../protocol.js";

/**
 * The conversation as it is and, for templates that refuse that, with its system messages said in other places
 * (MSG-10): all in one at the start, then at the start of the first user message. Forms that change nothing are left out.
 */
export function* systemForms(messages: readonly TemplateMessage[]): Generator<readonly TemplateMessage[], void> {
  yield messages;
  const system = messages.filter(({ role }) => role === "system");
  if (system.length === 0) return;
  const content = system.map((message) => message.content).join("\n\n");
  const others = messages.filter(({ role }) => role !== "system");
  if (system.length > 1 || messages[0]?.role !== "system") yield [{ role: "system", content }, ...others];
  const asked = others.findIndex(({ role }) => role === "user");
  if (asked < 0) return;
  yield others.map((message, i) =>
    i === asked ? { ...message, content: `${content}\n\n${message.content}` } : message,
  );
}
