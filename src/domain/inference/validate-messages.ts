import { type ContentPart, type Message, Role, RoleSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import {
  checkCount,
  checkLength,
  checkNotEmpty,
  checkOneOf,
  checkPresent,
  quote,
  refuse,
  refuseValue,
} from "../call/service-error.js";

const knownRoles = new Set<number>(Object.values(Role).filter((role) => role !== Role.UNSPECIFIED));
/**
 * Names of the accepted roles in the protobuf enum. Only RPCs need them: REST rejects other roles when it reads the
 * JSON.
 */
const roles = RoleSchema.values
  .filter(({ number }) => knownRoles.has(number))
  .map(({ name }) => name)
  .join(", ");
/** Roles with plain text content. */
const textRoles = new Set<number>([Role.DEVELOPER, Role.SYSTEM, Role.USER, Role.ASSISTANT]);
const partNames = "text, image_url, input_audio, file, refusal";
const imageUrl = /^(?:data:|https?:\/\/)/i;

/** Validates a conversation: each message, then the pairing of tool calls and results. */
export function validateMessages(messages: readonly Message[], limits: ServiceLimits): void {
  checkNotEmpty(messages.length, "messages");
  for (const [i, message] of messages.entries()) {
    // Plain text messages skip validation and the construction of field paths, because conversations are long and mostly
    // text.
    if (!isPlain(message)) validateMessage(message, `messages[${i}]`, limits);
  }
  validateToolMessages(messages);
}

/** Whether a message is plain text, which is always valid here. */
function isPlain({ role, name, content, toolCalls }: Message): boolean {
  if (!textRoles.has(role) || name !== undefined || toolCalls.length > 0 || content.length === 0) return false;
  for (const { part } of content) if (part.case !== "text") return false;
  return true;
}

function validateMessage(message: Message, at: string, limits: ServiceLimits): void {
  const { role } = message;
  if (!knownRoles.has(role)) {
    const given = role === Role.UNSPECIFIED ? "ROLE_UNSPECIFIED" : `the number ${role}`;
    refuseValue(`${at}.role`, `'${at}.role' must be one of ${roles}, but is ${given}.`);
  }
  if (message.name !== undefined) checkLength(message.name, `${at}.name`, fixedLimits.nameCharsMax);
  for (const [j, part] of message.content.entries()) {
    if (part.part.case !== "text") validatePart(part, role, `${at}.content[${j}]`);
  }
  validateToolCalls(message, at, limits);
  if (message.content.length === 0 && message.toolCalls.length === 0) {
    const unless = role === Role.ASSISTANT ? " unless the message has tool_calls" : "";
    refuse("missing_required_parameter", `${at}.content`, `'${at}.content' is required${unless}, but is missing.`);
  }
  if (role === Role.TOOL) {
    checkPresent(message.toolCallId, `${at}.tool_call_id`);
    checkLength(message.toolCallId, `${at}.tool_call_id`, fixedLimits.toolCallIdCharsMax);
  }
  if (role === Role.FUNCTION) checkPresent(message.name, `${at}.name`);
}

function validatePart({ part }: ContentPart, role: Role, at: string): void {
  switch (part.case) {
    case "imageUrl":
      if (!imageUrl.test(part.value.url)) {
        const url = `${at}.image_url.url`;
        refuseValue(url, `'${url}' must begin with data:, http:// or https://, but is ${quote(part.value.url)}.`);
      }
      checkOneOf(part.value.detail, `${at}.image_url.detail`, ["auto", "low", "high"]);
      break;
    case "inputAudio":
      checkPresent(part.value.data, `${at}.input_audio.data`);
      checkOneOf(part.value.format, `${at}.input_audio.format`, ["wav", "mp3"]);
      break;
    case "file":
      break;
    case "refusal":
      if (role !== Role.ASSISTANT) {
        refuseValue(at, `'${at}' may be a refusal in messages with the role 'assistant' only.`);
      }
      break;
    default:
      refuseValue(at, `'${at}' must be one of ${partNames}, but no part is set.`);
  }
}

function validateToolCalls(message: Message, at: string, limits: ServiceLimits): void {
  if (message.toolCalls.length === 0) return;
  const param = `${at}.tool_calls`;
  if (message.role !== Role.ASSISTANT) {
    refuseValue(param, `'${param}' may be given in messages with the role 'assistant' only.`);
  }
  checkCount(message.toolCalls.length, param, limits.toolsMax);
  for (const [k, call] of message.toolCalls.entries()) {
    checkPresent(call.id, `${param}[${k}].id`);
    checkLength(call.id, `${param}[${k}].id`, fixedLimits.toolCallIdCharsMax);
    checkPresent(call.function?.name, `${param}[${k}].function.name`);
    checkLength(call.function?.name, `${param}[${k}].function.name`, fixedLimits.nameCharsMax);
  }
}

const noCalls: ReadonlySet<string> = new Set();

/**
 * Every tool call needs a tool message with its result before any other message follows, and every tool message needs a tool
 * call (MSG-7). Client libraries recognise the error by the word tool_calls.
 */
function validateToolMessages(messages: readonly Message[]): void {
  /** `messages[i].tool_calls` of the last assistant message. */
  let param = "";
  let called = noCalls;
  let unanswered = new Set<string>();
  const checkAnswered = (): void => {
    if (unanswered.size === 0) return;
    const [first = ""] = unanswered;
    refuse(
      "invalid_tool_messages",
      param,
      `All tool_calls of '${param}' must be answered by messages with the role 'tool' right after it, but ` +
        `${unanswered.size} are not, among them ${quote(first)}.`,
    );
  };
  for (const [i, { role, toolCallId = "", toolCalls }] of messages.entries()) {
    if (role === Role.TOOL) {
      if (!called.has(toolCallId)) {
        const at = `messages[${i}].tool_call_id`;
        const expected = "must be the id of one of the tool_calls of the assistant message before it";
        refuse("invalid_tool_messages", at, `'${at}' ${expected}, but is ${quote(toolCallId)}.`);
      }
      unanswered.delete(toolCallId);
      continue;
    }
    checkAnswered();
    if (toolCalls.length === 0) called = noCalls;
    else {
      param = `messages[${i}].tool_calls`;
      called = new Set(toolCalls.map(({ id }) => id));
      unanswered = new Set(called);
    }
  }
  checkAnswered();
}
