import type { FinishReason } from "../../../domain/engine/engine.js";
import type { NativeApi } from "../../../domain/engine/upstream.js";
import { isObject } from "../../../lib/json-string.js";
import { errorKind, indexOf, type Json, stringOf } from "../answer/chunk-values.js";
import type { ReadUsage } from "../answer/upstream-usage.js";
import { finishReasonOfStop } from "../anthropic/messages-answer.js";
import { MessagesUsage } from "../anthropic/messages-usage.js";
import { countOf, parseJson, ReportedError } from "../protocol/upstream-failure.js";
import type { NativeEvents, NativeFacts } from "./native-answer.js";

type Mutable = Record<string, unknown>;

const nothing = { usage: null, reason: null, named: null, isLast: false } as const;

/** Creates the reader for the events of one answer. */
export function nativeEvents(api: NativeApi): NativeEvents {
  return api === "messages" ? new MessagesEvents() : new ResponsesEvents();
}

/** Reads events of Anthropic's Messages API. */
class MessagesEvents implements NativeEvents {
  readonly #figures = new MessagesUsage();
  #message: Mutable = {};
  readonly #blocks: Mutable[] = [];
  /** Arguments of the unfinished call. */
  #arguments = "";

  read(event: Json): NativeFacts {
    const { type, message, delta, usage } = event;
    switch (type) {
      case "message_start": {
        const named = isObject(message) ? message : null;
        return { ...nothing, usage: this.#figures.read(named?.["usage"], false), named, place: "preliminary" };
      }
      case "content_block_start":
        return { ...nothing, place: "preliminary" };
      case "ping":
        return { ...nothing, place: "ignored" };
      case "message_delta": {
        const stop = isObject(delta) ? stringOf(delta["stop_reason"]) : "";
        const reason = stop === "" ? null : finishReasonOfStop(stop);
        return { ...nothing, usage: this.#figures.read(usage, true), reason, place: "ending" };
      }
      case "message_stop":
        return { ...nothing, place: "ending", isLast: true };
      default:
        return { ...nothing, place: "content" };
    }
  }

  readWhole(answer: Json): NativeFacts {
    const stop = stringOf(answer["stop_reason"]);
    const reason = stop === "" ? null : finishReasonOfStop(stop);
    return { ...nothing, usage: this.#figures.read(answer["usage"], true), reason, named: answer, place: "ending" };
  }

  collect(event: Json): void {
    const { type, message, content_block: block, delta, usage } = event;
    if (type === "message_start" && isObject(message)) this.#message = { ...message };
    else if (type === "content_block_start" && isObject(block)) this.#blocks[indexOf(event)] = { ...block };
    else if (type === "content_block_delta" && isObject(delta)) this.#add(this.#blocks[indexOf(event)] ?? {}, delta);
    else if (type === "content_block_stop") this.#stop(this.#blocks[indexOf(event)] ?? {});
    else if (type === "message_delta") {
      if (isObject(delta)) Object.assign(this.#message, delta);
      const before = isObject(this.#message["usage"]) ? this.#message["usage"] : {};
      this.#message["usage"] = { ...before, ...(isObject(usage) ? usage : {}) };
    }
  }

  whole(): Json {
    return { ...this.#message, content: this.#blocks.filter((block) => block !== undefined) };
  }

  /** Adds a delta to its block: texts grow, parts of arguments are joined, citations are listed. */
  #add(block: Mutable, delta: Json): void {
    if (delta["type"] === "input_json_delta") this.#arguments += stringOf(delta["partial_json"]);
    else if (delta["type"] === "citations_delta") {
      const citations: readonly unknown[] = Array.isArray(block["citations"]) ? block["citations"] : [];
      block["citations"] = [...citations, delta["citation"]];
    } else {
      for (const [name, value] of Object.entries(delta)) {
        if (name !== "type" && typeof value === "string") block[name] = stringOf(block[name]) + value;
      }
    }
  }

  #stop(block: Mutable): void {
    if (this.#arguments === "") return;
    block["input"] = parseJson(this.#arguments) ?? { invalid_json: this.#arguments };
    this.#arguments = "";
  }
}

const preliminary =
  /^response\.(created|queued|in_progress|output_item\.added|content_part\.added|reasoning_summary_part\.added)$/;

/** Reads events of OpenAI's Responses API. */
class ResponsesEvents implements NativeEvents {
  #response: Json = {};

  read(event: Json): NativeFacts {
    const type = stringOf(event["type"]);
    const response = isObject(event["response"]) ? event["response"] : null;
    if (preliminary.test(type)) return { ...nothing, named: response, place: "preliminary" };
    if (type === "response.keepalive" || type === "keepalive") return { ...nothing, place: "ignored" };
    if (response === null) return { ...nothing, place: "content" };
    return { ...this.readWhole(response), isLast: true };
  }

  readWhole(response: Json): NativeFacts {
    if (response["status"] === "failed") {
      const error = isObject(response["error"]) ? response["error"] : {};
      throw new ReportedError(JSON.stringify({ error }), new Error(errorKind({ error })));
    }
    return { ...nothing, usage: usageOf(response), reason: reasonOf(response), named: response, place: "ending" };
  }

  collect(event: Json): void {
    if (isObject(event["response"])) this.#response = event["response"];
  }

  whole(): Json {
    return this.#response;
  }
}

function usageOf({ usage }: Json): ReadUsage | null {
  if (!isObject(usage)) return null;
  const ofInput = isObject(usage["input_tokens_details"]) ? usage["input_tokens_details"] : {};
  const ofOutput = isObject(usage["output_tokens_details"]) ? usage["output_tokens_details"] : {};
  return {
    promptTokens: countOf(usage["input_tokens"]),
    outTokens: countOf(usage["output_tokens"]),
    cachedTokens: countOf(ofInput["cached_tokens"]),
    reasoningTokens: countOf(ofOutput["reasoning_tokens"]),
  };
}

/** The finish reason of a response; null if it has not ended. */
function reasonOf({ status, incomplete_details: details, output }: Json): FinishReason | null {
  if (status === "incomplete") {
    return isObject(details) && details["reason"] === "content_filter" ? "content_filter" : "length";
  }
  if (status !== "completed") return null;
  const items: readonly unknown[] = Array.isArray(output) ? output : [];
  return items.some((item) => isObject(item) && item["type"] === "function_call") ? "tool_calls" : "stop";
}
