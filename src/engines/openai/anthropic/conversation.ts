import { type ContentPart, type Message, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { EngineError } from "../../../domain/engine/engine.js";
import { isObject, jsonString } from "../../../lib/json-string.js";
import { JsonObject } from "../protocol/request-body.js";
import { parseJson } from "../protocol/upstream-failure.js";

/** A conversation in the form of Anthropic's Messages API. */
export interface Conversation {
  /** All system and developer messages; undefined: there are none. */
  readonly system: string | undefined;
  /** Messages as JSON, alternately of the user and the assistant. At least one. */
  readonly messages: readonly string[];
}

/** Content blocks of successive messages with the same role. */
interface ConversationTurn {
  readonly role: "user" | "assistant";
  readonly blocks: string[];
}

/**
 * Converts a conversation: instructions become the system prompt, results of tools become content of the user, and
 * successive messages with the same role become one message. Throws EngineError for content that the API does not support.
 */
export function conversationOf(messages: readonly Message[]): Conversation {
  const system: string[] = [];
  const turns: ConversationTurn[] = [];
  for (const [i, message] of messages.entries()) {
    if (message.role === Role.SYSTEM || message.role === Role.DEVELOPER) {
      const text = textOf(message);
      if (text !== "") system.push(text);
      continue;
    }
    const role = message.role === Role.ASSISTANT ? "assistant" : "user";
    const blocks = blocksOf(message, i, i === messages.length - 1);
    const turn = turns.at(-1);
    if (blocks.length === 0) continue;
    if (turn?.role === role) turn.blocks.push(...blocks);
    else turns.push({ role, blocks });
  }
  if (turns.length === 0) {
    const text = "Anthropic's API needs a message of the user or the assistant that is not empty.";
    throw new EngineError("bad_input", text, { param: "messages" });
  }
  return {
    system: system.length === 0 ? undefined : system.join("\n\n"),
    messages: turns.map(({ role, blocks }) => `{"role":"${role}","content":[${blocks.join()}]}`),
  };
}

/** The blocks of one message. `isLast`: the model continues it, and the API rejects spaces at its end. */
function blocksOf(message: Message, index: number, isLast: boolean): string[] {
  const { role, content, toolCalls } = message;
  if (role === Role.TOOL) return [toolResult(message, index)];
  const isContinued = isLast && role === Role.ASSISTANT && toolCalls.length === 0;
  const blocks = content.flatMap((part, j) => {
    const isEnd = isContinued && j === content.length - 1;
    const block = blockOf(part, `messages[${index}].content[${j}]`, isEnd);
    return block === null ? [] : [block];
  });
  for (const { id, function: called } of toolCalls) {
    const call = new JsonObject()
      .add("type", '"tool_use"')
      .text("id", callId(id))
      .text("name", called?.name ?? "")
      .add("input", inputJson(called?.argumentsJson ?? ""));
    blocks.push(call.toString());
  }
  return blocks;
}

/** A content block as JSON; null for text without a visible character, which the API rejects. */
function blockOf({ part }: ContentPart, param: string, isEnd: boolean): string | null {
  switch (part.case) {
    case "text":
    case "refusal": {
      const text = isEnd ? part.value.trimEnd() : part.value;
      return text.trim() === "" ? null : `{"type":"text","text":${jsonString(text)}}`;
    }
    case "imageUrl":
      return `{"type":"image","source":${imageSource(part.value.url, param)}}`;
    default:
      throw new EngineError("unsupported", "Anthropic's API takes text and images only.", { param });
  }
}

function imageSource(url: string, param: string): string {
  if (!/^data:/i.test(url)) return new JsonObject().add("type", '"url"').text("url", url).toString();
  const comma = url.indexOf(",");
  const [mediaType = "", ...attributes] = url.slice("data:".length, Math.max(0, comma)).toLowerCase().split(";");
  if (comma === -1 || attributes.at(-1) !== "base64") {
    throw new EngineError("bad_input", `'${param}' must be a data: URL with base64.`, { param });
  }
  return new JsonObject()
    .add("type", '"base64"')
    .text("media_type", mediaType)
    .text("data", url.slice(comma + 1))
    .toString();
}

function toolResult(message: Message, index: number): string {
  const isText = message.content.every(({ part }) => part.case === "text");
  const blocks = message.content.flatMap((part, j) => blockOf(part, `messages[${index}].content[${j}]`, false) ?? []);
  return new JsonObject()
    .add("type", '"tool_result"')
    .text("tool_use_id", callId(message.toolCallId ?? ""))
    .add("content", isText ? jsonString(textOf(message)) : `[${blocks.join()}]`)
    .toString();
}

/** An id without characters that the API rejects and ids of other servers may contain. */
function callId(id: string): string {
  return id.replace(/[^\w-]/g, "_");
}

/** The arguments of a call unchanged, or as a text in an object if an earlier answer was cut or malformed. */
function inputJson(argumentsJson: string): string {
  if (isObject(parseJson(argumentsJson))) return argumentsJson;
  return argumentsJson.trim() === "" ? "{}" : JSON.stringify({ invalid_json: argumentsJson });
}

function textOf({ content }: Message): string {
  return content.map(({ part }) => (part.case === "text" ? part.value : "")).join("");
}
