import { type ContentPart, type Message, Role, type ToolCall } from "../../../gen/unified/inference/v1/chat_pb.js";
import { checkNotEmpty, refuse } from "../../domain/call/service-error.js";
import { type JsonObject, missingField, unknownValue, wrongType } from "../http/json-object.js";

/** The core's messages and, for each message, the path of the message or block from which it was read. */
export interface Conversation {
  readonly messages: Message[];
  readonly sources: string[];
}

/** Reads `system` and `messages`. The core checks that tool calls and results match. Throws ServiceError. */
export function readConversation(body: JsonObject): Conversation {
  const conversation: Conversation = { messages: [], sources: [] };
  addSystem(conversation, body);
  const messages = body.objects("messages") ?? missingField("messages");
  checkNotEmpty(messages.length, "messages");
  for (const message of messages) {
    const role = message.requiredString("role");
    if (role === "user") addUser(conversation, message);
    else if (role === "assistant") addAssistant(conversation, message);
    else if (role === "system") add(conversation, Role.SYSTEM, message.path, contentOf(message, textOnly));
    else unknownValue(message.pathOf("role"), role, ["user", "assistant", "system"]);
  }
  return conversation;
}

type PartReader = (block: JsonObject) => ContentPart;

function add({ messages, sources }: Conversation, role: Role, source: string, content: ContentPart[]): Message {
  // A literal: a conversation has many messages, and `create` would visit every field of each.
  const message: Message = { $typeName: "unified.inference.v1.Message", role, content, toolCalls: [] };
  messages.push(message);
  sources.push(source);
  return message;
}

/** Start of a text that Claude Code sends for billing. It is removed, because it changes and so prevents prefix caching. */
const billing = "x-anthropic-billing-header:";

function addSystem(conversation: Conversation, body: JsonObject): void {
  const system = body.value("system");
  if (system === undefined || system === "") return;
  if (typeof system === "string") {
    add(conversation, Role.SYSTEM, "system", [textPart(system)]);
    return;
  }
  const parts = blocksOf(body, "system").map(textOnly);
  const kept = parts.filter(({ part }) => part.case !== "text" || !part.value.startsWith(billing));
  if (kept.length > 0) add(conversation, Role.SYSTEM, "system", kept);
}

/** Adds a user's message. In the core each tool result is a separate message, before the rest of the user's message. */
function addUser(conversation: Conversation, message: JsonObject): void {
  const text = message.value("content");
  if (typeof text === "string") {
    add(conversation, Role.USER, message.path, [textPart(text)]);
    return;
  }
  const rest: ContentPart[] = [];
  for (const block of blocksOf(message, "content")) {
    if (block.requiredString("type") === "tool_result") addToolResult(conversation, block);
    else rest.push(readPart(block, userTypes));
  }
  if (rest.length > 0) add(conversation, Role.USER, message.path, rest);
}

function addToolResult(conversation: Conversation, block: JsonObject): void {
  const content = block.value("content") === undefined ? [] : contentOf(block, anyPart);
  const isError = block.boolean("is_error") === true;
  // The core has no field for failed results, so the text states it.
  const parts = isError ? [textPart("Error: "), ...content] : content;
  const result = add(conversation, Role.TOOL, block.path, parts.length > 0 ? parts : [textPart("")]);
  result.toolCallId = block.requiredString("tool_use_id");
}

/** Thinking blocks of earlier turns are removed: the core has no field for them, and chat templates drop them. */
const droppedTypes: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);

function addAssistant(conversation: Conversation, message: JsonObject): void {
  const text = message.value("content");
  if (typeof text === "string") {
    add(conversation, Role.ASSISTANT, message.path, [textPart(text)]);
    return;
  }
  const content: ContentPart[] = [];
  const calls: ToolCall[] = [];
  for (const block of blocksOf(message, "content")) {
    const type = block.requiredString("type");
    if (type === "tool_use") calls.push(readToolUse(block));
    else if (!droppedTypes.has(type)) content.push(readPart(block, assistantTypes));
  }
  const isEmpty = content.length === 0 && calls.length === 0;
  add(conversation, Role.ASSISTANT, message.path, isEmpty ? [textPart("")] : content).toolCalls = calls;
}

function readToolUse(block: JsonObject): ToolCall {
  return {
    $typeName: "unified.inference.v1.ToolCall",
    id: block.requiredString("id"),
    function: {
      $typeName: "unified.inference.v1.FunctionCall",
      name: block.requiredString("name"),
      argumentsJson: block.objectAsText("input") ?? "{}",
    },
  };
}

/** Reads content that is a text or a list of blocks. */
function contentOf(owner: JsonObject, read: PartReader): ContentPart[] {
  const content = owner.value("content");
  return typeof content === "string" ? [textPart(content)] : blocksOf(owner, "content").map(read);
}

/** Reads a list of at least one block. */
function blocksOf(owner: JsonObject, key: string): readonly JsonObject[] {
  const value = owner.value(key);
  const path = owner.pathOf(key);
  if (value === undefined) missingField(path);
  if (!Array.isArray(value)) wrongType(path, "a string or an array of blocks", value);
  if (value.length === 0) refuse("empty_array", path, `'${path}' must have at least 1 block, but is empty.`);
  return owner.objects(key) ?? [];
}

const partTypes = ["text", "image", "document"];
const userTypes = [...partTypes, "tool_result"];
const assistantTypes = ["text", "tool_use", ...droppedTypes];

const textOnly: PartReader = (block) => readPart(block, ["text"]);
const anyPart: PartReader = (block) => readPart(block, partTypes);

/** Reads a block as a content part. `supported`: allowed types. Fields such as `cache_control` and `citations` are ignored. */
function readPart(block: JsonObject, supported: readonly string[]): ContentPart {
  const type = block.requiredString("type");
  if (!supported.includes(type)) unknownValue(block.pathOf("type"), type, supported);
  if (type === "image") return imagePart(imageUrl(block.requiredObject("source")));
  return textPart(type === "document" ? documentText(block) : block.requiredString("text"));
}

function textPart(text: string): ContentPart {
  return { $typeName: "unified.inference.v1.ContentPart", part: { case: "text", value: text } };
}

function imagePart(url: string): ContentPart {
  const value = { $typeName: "unified.inference.v1.ImageUrl", url } as const;
  return { $typeName: "unified.inference.v1.ContentPart", part: { case: "imageUrl", value } };
}

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

function imageUrl(source: JsonObject): string {
  const type = source.requiredString("type");
  if (type === "url") return source.requiredString("url");
  if (type !== "base64") return unknownValue(source.pathOf("type"), type, ["base64", "url"]);
  const mediaType = source.requiredString("media_type");
  if (!imageTypes.includes(mediaType)) unknownValue(source.pathOf("media_type"), mediaType, imageTypes);
  return `data:${mediaType};base64,${source.requiredString("data")}`;
}

/** The text of a document after its title and context. Other kinds of files are refused, because no engine can read them. */
function documentText(block: JsonObject): string {
  const source = block.requiredObject("source");
  const type = source.requiredString("type");
  const head = [block.string("title"), block.string("context")].filter((text) => text !== undefined);
  if (type === "text") return [...head, source.requiredString("data")].join("\n");
  if (type !== "content") return unknownValue(source.pathOf("type"), type, ["text", "content"]);
  const texts = contentOf(source, textOnly).map(({ part }) => (part.case === "text" ? part.value : ""));
  return [...head, ...texts].join("\n");
}
