import type { ChatCompletionChunk, ChatDelta, ToolCallDelta } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { Usage } from "../../../../gen/unified/inference/v1/usage_pb.js";
import { type ErrorCode, errorRow } from "../../../contract/errors.js";
import { jsonString } from "../../../lib/json-string.js";
import type { StreamFrames } from "../../http/stream.js";
import type { ResponseRequest } from "./read-response.js";
import {
  type CalledFunction,
  callItemJson,
  endOf,
  type ItemStatus,
  logprobEntriesJson,
  messageItemJson,
  type ResponseObject,
  reasoningItemJson,
  reasoningPartJson,
  refusalPartJson,
  textPartJson,
} from "./response-object.js";

/** Kinds of text with delta events. For each: the prefix of the item's id, the event name and the field of its `done` event. */
const partKinds = {
  text: { item: "msg", event: "response.output_text", field: "text" },
  refusal: { item: "msg", event: "response.refusal", field: "refusal" },
  reasoning: { item: "rs", event: "response.reasoning_text", field: "text" },
  arguments: { item: "fc", event: "response.function_call_arguments", field: "arguments" },
} as const;

type PartKind = keyof typeof partKinds;

/** The part that is being written. The JSON around each delta is built once (performance 6). */
interface OpenPart {
  readonly kind: PartKind;
  /** Members of its events that identify the part. */
  readonly place: string;
  /** A delta event in three pieces: up to its sequence number, from there up to its text, and after its text. */
  readonly start: string;
  readonly middle: string;
  readonly end: string;
  /** The deltas that were written so far. */
  readonly texts: string[];
  /** JSON of the log probabilities so far, without brackets. */
  logprobs: string;
}

/** The item that is being written. */
interface OpenItem {
  readonly prefix: "msg" | "fc" | "rs";
  readonly id: string;
  /** JSON of the finished parts; for a call, of its arguments. */
  readonly parts: string[];
  readonly called: CalledFunction;
}

type AnswerChunk = Pick<ChatCompletionChunk, "choices" | "usage">;

/** The JSON of an error in OpenAI's API. */
interface ErrorEnvelope {
  readonly error: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly param: string | null;
    readonly type: string;
  };
}

const noCall: CalledFunction = { callId: "", name: "" };

/**
 * Turns the chunks of a chat stream into the events of one response (RSP-6 to RSP-12). Only one item is open: a new item
 * closes the previous one. A token costs only the escaping of its text and a few concatenations.
 */
export class ResponseFrames implements StreamFrames<AnswerChunk> {
  readonly #response: ResponseObject;
  readonly #renamed: ResponseRequest["renamed"];
  readonly #store: ((json: string) => Promise<void>) | null;
  #sequence = 0;
  /** JSON of the finished items. */
  readonly #items: string[] = [];
  #item: OpenItem | null = null;
  #part: OpenPart | null = null;
  /** Whether the answer has an item other than reasoning. */
  #hasAnswer = false;
  #finishReason = "stop";
  #usage: Usage | undefined;

  /** `renamed` gives an error the field names of this API. `store` stores the finished response; null: it is not stored. */
  constructor(
    response: ResponseObject,
    renamed: ResponseRequest["renamed"],
    store: ((json: string) => Promise<void>) | null = null,
  ) {
    this.#response = response;
    this.#renamed = renamed;
    this.#store = store;
  }

  /** The first events. */
  begin(): string {
    const response = this.#response.json({ status: "in_progress", items: [] });
    return this.#responseEvent("created", response) + this.#responseEvent("in_progress", response);
  }

  /** The events of a chunk; the last chunk has the usage and no choice. */
  frame({ choices, usage }: AnswerChunk): string {
    const choice = choices[0];
    if (choice === undefined) {
      this.#usage = usage;
      return "";
    }
    const { delta, logprobs, finishReason } = choice;
    // Nearly all chunks continue the text of the open part.
    const part = this.#part;
    if (part?.kind === "text" && delta !== undefined && isPlainText(delta) && logprobs === undefined) {
      part.texts.push(delta.content);
      const event = part.start + this.#sequence++ + part.middle + jsonString(delta.content) + part.end;
      return finishReason === undefined ? event : event + this.#finish(finishReason);
    }
    let events = "";
    if (delta !== undefined) {
      const { content, reasoningContent, refusal, toolCalls } = delta;
      if (reasoningContent) events += this.#delta("reasoning", reasoningContent);
      if (logprobs !== undefined) events += this.#delta("text", content ?? "", logprobEntriesJson(logprobs));
      else if (content) events += this.#delta("text", content);
      if (refusal) events += this.#delta("refusal", refusal);
      for (const call of toolCalls) events += this.#callDelta(call);
    }
    return finishReason === undefined ? events : events + this.#finish(finishReason);
  }

  /** Stores the response before its last event, which states whether it is stored. */
  async beforeEnd(): Promise<void> {
    await this.#store?.(this.#finishedJson());
  }

  /** The last event of a stream without failure. It has the whole response, with its usage. */
  end(): string {
    return this.#responseEvent(endOf(this.#finishReason).status, this.#finishedJson());
  }

  #finishedJson(): string {
    const { status, reason } = endOf(this.#finishReason);
    return this.#response.json({ status, items: this.#items, usage: this.#usage, reason });
  }

  /** An event that changes nothing, for clients that need events instead of comments (SSE-9); null: none can be sent. */
  keepAlive(): string | null {
    const part = this.#part;
    if (part !== null) return `${part.start}${this.#sequence++}${part.middle}""${part.end}`;
    if (this.#items.length > 0 || this.#item !== null) return null;
    return this.#responseEvent("in_progress", this.#response.json({ status: "in_progress", items: [] }));
  }

  /**
   * The last event of a response that failed (RSP-10). An error of the request (400) is written as `response.failed`. All
   * other errors are `error` events, which client libraries raise as exceptions. Their fields are present twice: flat for
   * OpenAI's libraries, and nested in `error` for others.
   */
  failed(envelope: object): string {
    this.#response.notStored();
    const { code, message, param, type } = this.#renamed((envelope as ErrorEnvelope).error);
    if (errorRow(code).http === 400) {
      return this.#responseEvent(
        "failed",
        this.#response.json({ status: "failed", items: this.#items, error: { code, message } }),
      );
    }
    const fields = JSON.stringify({ code, message, param, error: { message, type, param, code } });
    return this.#event("error", fields.slice(1, -1));
  }

  #event(type: string, members: string): string {
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},${members}}\n\n`;
  }

  #responseEvent(name: "created" | "in_progress" | "completed" | "incomplete" | "failed", json: string): string {
    return this.#event(`response.${name}`, `"response":${json}`);
  }

  #delta(kind: PartKind, text: string, logprobs = ""): string {
    const opening = this.#part?.kind === kind ? "" : this.#openPart(kind, noCall);
    const part = this.#part;
    if (part === null) return opening;
    part.texts.push(text);
    const begun = opening + part.start + this.#sequence++ + part.middle + jsonString(text);
    if (logprobs === "") return begun + part.end;
    part.logprobs += (part.logprobs === "" ? "" : ",") + logprobs;
    return `${begun},"logprobs":[${logprobs}]}\n\n`;
  }

  /** The events of a call's delta. The first delta of a call has its id; further ones have its arguments. */
  #callDelta({ id, name = "", argumentsJson = "" }: ToolCallDelta): string {
    const opening =
      id === undefined ? "" : this.#closeItem("completed") + this.#openPart("arguments", { callId: id, name });
    return argumentsJson === "" ? opening : opening + this.#delta("arguments", argumentsJson);
  }

  /** Opens a part in the open item, or in a new item if the open one has another type. */
  #openPart(kind: PartKind, called: CalledFunction): string {
    const { item: prefix, event } = partKinds[kind];
    let events = this.#item?.prefix === prefix ? this.#closePart() : this.#closeItem("completed");
    if (this.#item === null) {
      const id = this.#response.itemId(prefix, this.#items.length);
      this.#item = { prefix, id, parts: [], called };
      this.#hasAnswer ||= prefix !== "rs";
      const item = itemJson(this.#item, "in_progress");
      events += this.#event("response.output_item.added", `"output_index":${this.#items.length},"item":${item}`);
    }
    const isContent = kind !== "arguments";
    const contentIndex = isContent ? `,"content_index":${this.#item.parts.length}` : "";
    const place = `"item_id":"${this.#item.id}","output_index":${this.#items.length}${contentIndex}`;
    if (isContent) {
      events += this.#event("response.content_part.added", `${place},"part":${partJson(kind, '""', "")}`);
    }
    this.#part = {
      kind,
      place,
      start: `event: ${event}.delta\ndata: {"type":"${event}.delta","sequence_number":`,
      middle: `,${place},"delta":`,
      end: kind === "text" ? ',"logprobs":[]}\n\n' : "}\n\n",
      texts: [],
      logprobs: "",
    };
    return events;
  }

  #closePart(): string {
    const item = this.#item;
    const part = this.#part;
    if (item === null || part === null) return "";
    this.#part = null;
    const { kind, place, logprobs } = part;
    const { event, field } = partKinds[kind];
    const text = jsonString(part.texts.join(""));
    if (kind === "arguments") {
      item.parts.push(text);
      return this.#event(`${event}.done`, `${place},"name":${jsonString(item.called.name)},"arguments":${text}`);
    }
    const json = partJson(kind, text, logprobs);
    item.parts.push(json);
    const more = kind === "text" ? `,"logprobs":[${logprobs}]` : "";
    return (
      this.#event(`${event}.done`, `${place},"${field}":${text}${more}`) +
      this.#event("response.content_part.done", `${place},"part":${json}`)
    );
  }

  #closeItem(status: ItemStatus): string {
    const item = this.#item;
    if (item === null) return "";
    const events = this.#closePart();
    this.#item = null;
    const json = itemJson(item, status);
    const place = `"output_index":${this.#items.length}`;
    this.#items.push(json);
    return events + this.#event("response.output_item.done", `${place},"item":${json}`);
  }

  /** Closes the last item. An answer without calls gets a text, possibly an empty one, unless it was cut in its reasoning. */
  #finish(reason: string): string {
    this.#finishReason = reason;
    const { status } = endOf(reason);
    const needsText = !this.#hasAnswer && (status === "completed" || this.#item === null);
    const opening = needsText ? this.#openPart("text", noCall) : "";
    return opening + this.#closeItem(status);
  }
}

function isPlainText(delta: ChatDelta): delta is ChatDelta & { content: string } {
  return (
    !!delta.content &&
    delta.refusal === undefined &&
    delta.reasoningContent === undefined &&
    delta.toolCalls.length === 0
  );
}

function itemJson({ prefix, id, called, parts }: OpenItem, status: ItemStatus): string {
  if (prefix === "fc") return callItemJson(id, status, called, parts[0] ?? '""');
  return prefix === "msg" ? messageItemJson(id, status, parts) : reasoningItemJson(id, status, parts);
}

function partJson(kind: Exclude<PartKind, "arguments">, text: string, logprobs: string): string {
  if (kind === "text") return textPartJson(text, logprobs);
  return kind === "refusal" ? refusalPartJson(text) : reasoningPartJson(text);
}
