import { type Message, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { quote, refuse } from "../call/field-checks.js";

/** Calls of the last assistant message that made some, and what of them is still without an answer. */
interface OpenCalls {
  /** `messages[i].tool_calls`. */
  readonly param: string;
  readonly made: ReadonlySet<string>;
  readonly unanswered: Set<string>;
}

/**
 * Every call must be answered before the next message that is not a tool message, and every tool message must answer a
 * call (MSG-7). The word tool_calls in the text is how client libraries recognise the error.
 */
export function validateToolMessages(messages: readonly Message[]): void {
  let open: OpenCalls | null = null;
  for (const [i, message] of messages.entries()) {
    if (message.role === Role.TOOL) {
      answer(open, message.toolCallId ?? "", `messages[${i}].tool_call_id`);
      continue;
    }
    refuseUnanswered(open);
    open = message.toolCalls.length === 0 ? null : callsOf(message, i);
  }
  refuseUnanswered(open);
}

function callsOf(message: Message, i: number): OpenCalls {
  const ids = message.toolCalls.map((call) => call.id);
  return { param: `messages[${i}].tool_calls`, made: new Set(ids), unanswered: new Set(ids) };
}

function answer(open: OpenCalls | null, id: string, param: string): void {
  if (open === null || !open.made.has(id)) {
    refuse(
      "invalid_tool_messages",
      param,
      `'${param}' must be the id of one of the tool_calls of the assistant message before it, but is ${quote(id)}.`,
    );
  }
  open.unanswered.delete(id);
}

function refuseUnanswered(open: OpenCalls | null): void {
  if (open === null) return;
  const [first] = open.unanswered;
  if (first === undefined) return;
  refuse(
    "invalid_tool_messages",
    open.param,
    `All tool_calls of '${open.param}' must be answered by messages with the role 'tool' right after it, but ` +
      `${open.unanswered.size} are not, among them ${quote(first)}.`,
  );
}
