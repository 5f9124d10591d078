import { create } from "@bufbuild/protobuf";
import {
  type ContentPart,
  ContentPartSchema,
  type Message,
  Role,
  ToolCallSchema,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import { quote, refuse } from "../../../domain/call/service-error.js";
import { type JsonObject, missingField, unknownValue, wrongType } from "../../http/json-object.js";

/** Place in the request from which a message was read, for the `param` of errors. */
interface MessageSource {
  /** Path such as `input[2]`; `input` or `instructions` for a text. */
  readonly path: string;
  /** The item's field with the content; empty for a text. */
  readonly contentField: "content" | "output" | "";
  /** Paths of the items from which the message's calls were read. */
  readonly calls: string[];
}

const itemTypes = ["message", "function_call", "function_call_output", "reasoning"];

/**
 * Builds chat messages from `instructions` and input items (RSP-2). Items are added in order, those of earlier responses
 * before those of the request. In chat the results of calls must directly follow the message with the calls, so messages
 * between a call and its output are moved behind the output.
 */
export class Conversation {
  readonly messages: Message[] = [];
  readonly #sources: MessageSource[] = [];
  /** Item paths of the calls that have no output yet, by the call's id. */
  readonly #openCalls = new Map<string, string>();
  /** Index of the assistant message with the open calls. */
  #caller = -1;
  readonly #held: JsonObject[] = [];

  /** `instructions` become the first message. */
  constructor(instructions: string | undefined) {
    if (instructions !== undefined) this.#addText(Role.SYSTEM, instructions, "instructions");
  }

  /** Adds an input that is one text. */
  addText(text: string): void {
    this.#addText(Role.USER, text, "input");
  }

  /** Adds an item of the input or of an earlier response. Throws ServiceError. */
  addItem(item: JsonObject): void {
    // The type is optional for messages.
    const type = item.string("type") ?? "message";
    switch (type) {
      case "message":
        if (this.#openCalls.size > 0) this.#held.push(item);
        else this.#addMessage(item);
        return;
      case "function_call":
        this.#addCall(item);
        return;
      case "function_call_output":
        this.#addOutput(item);
        return;
      case "reasoning":
        return;
      default:
        refuseItem(item.pathOf("type"), type);
    }
  }

  /** Call after the last item. Throws ServiceError when a call has no output. */
  end(): void {
    const [open] = this.#openCalls;
    if (open === undefined) return;
    const [id, path] = open;
    const param = `${path}.call_id`;
    const sentence = `No function_call_output has the call_id of '${param}', which is ${quote(id)}.`;
    refuse("invalid_tool_messages", param, sentence);
  }

  /** Converts a path in the chat messages to its path in the request: `messages[1].tool_call_id` to `input[2].call_id`. */
  pathOf(messagePath: string): string {
    const [, digits, rest = ""] = /^messages\[(\d+)\](.*)$/.exec(messagePath) ?? [];
    const source = this.#sources[Number(digits)];
    if (source === undefined) return messagePath === "messages" ? "input" : messagePath;
    if (source.contentField === "") return source.path;
    const inCalls = /^\.tool_calls(?:\[(\d+)\])?(.*)$/.exec(rest);
    if (inCalls !== null) {
      const [, call = "0", ofCall = ""] = inCalls;
      const path = source.calls[Number(call)] ?? source.path;
      return path + ofCall.replace(/^\.id$/, ".call_id").replace(/^\.function\./, ".");
    }
    return (
      source.path +
      rest
        .replace(/^\.content/, `.${source.contentField}`)
        .replace(/^\.tool_call_id$/, ".call_id")
        .replace(/\.image_url\.url$/, ".image_url")
        .replace(/\.image_url\.detail$/, ".detail")
    );
  }

  #addText(role: Role, text: string, path: string): void {
    this.#add(role, [textPart(text)], { path, contentField: "", calls: [] });
  }

  #addMessage(item: JsonObject): void {
    const role = readRole(item);
    this.#add(role, readContent(item, role), { path: item.path, contentField: "content", calls: [] });
  }

  /** Adds a call. Successive calls become one message, together with the text of the assistant before them. */
  #addCall(item: JsonObject): void {
    const id = item.requiredString("call_id");
    if (this.#openCalls.size === 0) {
      const last = this.messages.at(-1);
      const continuesText = last?.role === Role.ASSISTANT && last.toolCalls.length === 0;
      if (!continuesText) this.#add(Role.ASSISTANT, [], { path: item.path, contentField: "content", calls: [] });
      this.#caller = this.messages.length - 1;
    }
    const argumentsJson = item.requiredString("arguments");
    this.messages[this.#caller]?.toolCalls.push(
      create(ToolCallSchema, { id, function: { name: item.requiredString("name"), argumentsJson } }),
    );
    this.#sources[this.#caller]?.calls.push(item.path);
    this.#openCalls.set(id, item.path);
  }

  #addOutput(item: JsonObject): void {
    const id = item.requiredString("call_id");
    if (!this.#openCalls.delete(id)) {
      const param = item.pathOf("call_id");
      const expected = "must be the call_id of a function_call before it that has no output yet";
      refuse("invalid_tool_messages", param, `'${param}' ${expected}, but is ${quote(id)}.`);
    }
    const output = readParts(item, "output");
    this.#add(Role.TOOL, output, { path: item.path, contentField: "output", calls: [] }, id);
    if (this.#openCalls.size > 0) return;
    for (const held of this.#held.splice(0)) this.#addMessage(held);
  }

  #add(role: Role, content: ContentPart[], source: MessageSource, toolCallId?: string): void {
    const message: Message = { $typeName: "unified.inference.v1.Message", role, content, toolCalls: [] };
    if (toolCallId !== undefined) message.toolCallId = toolCallId;
    this.messages.push(message);
    this.#sources.push(source);
  }
}

function refuseItem(path: string, type: string): never {
  if (type === "item_reference") {
    const advice = "send the item itself, as the AI SDK does with providerOptions.openai.store: false";
    refuse("unsupported_value", path, `Unsupported value 'item_reference' for '${path}': ${advice}.`);
  }
  unknownValue(path, type, itemTypes);
}

const roles: ReadonlyMap<string, Role> = new Map([
  ["user", Role.USER],
  ["assistant", Role.ASSISTANT],
  ["system", Role.SYSTEM],
  ["developer", Role.DEVELOPER],
]);

function readRole(item: JsonObject): Role {
  const name = item.requiredString("role");
  const role = roles.get(name);
  if (role === undefined) unknownValue(item.pathOf("role"), name, [...roles.keys()]);
  return role;
}

/** Reads the content. An assistant's message may have none: clients send back an answer that was cut before its first part. */
function readContent(item: JsonObject, role: Role): ContentPart[] {
  const content = item.value("content");
  if (role === Role.ASSISTANT && Array.isArray(content) && content.length === 0) return [textPart("")];
  return readParts(item, "content");
}

function readParts(item: JsonObject, field: "content" | "output"): ContentPart[] {
  const content = item.value(field);
  const path = item.pathOf(field);
  if (content === undefined) missingField(path);
  if (typeof content === "string") return [textPart(content)];
  if (!Array.isArray(content)) wrongType(path, "a string or an array of parts", content);
  if (content.length === 0) {
    refuse("empty_array", path, `Invalid '${path}': at least 1 part is needed, but the array is empty.`);
  }
  return (item.objects(field) ?? []).map(readPart);
}

/** A literal, not `create`, for speed: nearly every part is text. */
function textPart(text: string): ContentPart {
  return { $typeName: "unified.inference.v1.ContentPart", part: { case: "text", value: text } };
}

const partTypes = ["input_text", "input_image", "input_file", "output_text", "refusal"];

function readPart(part: JsonObject): ContentPart {
  const type = part.requiredString("type");
  switch (type) {
    case "input_text":
    case "output_text":
      return textPart(part.requiredString("text"));
    case "refusal":
      return create(ContentPartSchema, { part: { case: "refusal", value: part.requiredString("refusal") } });
    case "input_image":
      return readImage(part);
    case "input_file": {
      const filename = part.string("filename");
      const fileData = part.string("file_data");
      const fileId = part.string("file_id");
      return create(ContentPartSchema, { part: { case: "file", value: { filename, fileData, fileId } } });
    }
    default:
      return unknownValue(part.pathOf("type"), type, partTypes);
  }
}

function readImage(part: JsonObject): ContentPart {
  const fileId = part.pathOf("file_id");
  if (part.string("file_id") !== undefined) {
    refuse("unsupported_parameter", fileId, `Unsupported parameter: '${fileId}'. Send the image in 'image_url'.`);
  }
  const detail = part.string("detail");
  const url = part.requiredString("image_url");
  return create(ContentPartSchema, {
    // Chat has no value for the original size; `high` is its largest.
    part: { case: "imageUrl", value: { url, detail: detail === "original" ? "high" : detail } },
  });
}
