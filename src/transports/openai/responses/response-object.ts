import type { ChatChoice, ChatCompletion } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { Logprobs, TopLogprob } from "../../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../../gen/unified/inference/v1/usage_pb.js";
import { jsonString } from "../../../lib/json-string.js";

/** Status of a response. Items cannot be `failed`. */
type ResponseStatus = "in_progress" | "completed" | "incomplete" | "failed";
export type ItemStatus = Exclude<ResponseStatus, "failed">;

/** The members of a response that change while it is generated. */
interface ResponseState {
  readonly status: ResponseStatus;
  /** JSON of the finished items. */
  readonly items: readonly string[];
  readonly usage?: Usage | undefined;
  readonly error?: { readonly code: string; readonly message: string };
  /** Reason of an incomplete response. */
  readonly reason?: string | undefined;
}

/** Writes the JSON of one response (RSP-4) at every stage. Members that repeat the request are the same at all stages. */
export class ResponseObject {
  /** `resp_` and 24 characters, which are also part of the ids of its items. */
  readonly id: string;
  readonly #unique: string;
  readonly #head: string;
  readonly #repeatedJson: string;
  #storedJson: string | null;

  /** `createdAt`: Unix seconds. `storedJson` replaces `repeatedJson` while the response is or will be stored; null: it is not. */
  constructor(id: string, createdAt: number, repeatedJson: string, storedJson: string | null = null) {
    this.id = id;
    this.#unique = id.slice(id.indexOf("_") + 1);
    this.#head = `{"id":"${id}","object":"response","created_at":${createdAt}`;
    this.#repeatedJson = repeatedJson;
    this.#storedJson = storedJson;
  }

  get isStored(): boolean {
    return this.#storedJson !== null;
  }

  /** From now on the JSON states that the response is not stored. */
  notStored(): void {
    this.#storedJson = null;
  }

  /** Id of the item at a position: `msg_`, `fc_` or `rs_`, the characters of the response's id and the position. */
  itemId(prefix: "msg" | "fc" | "rs", index: number): string {
    return `${prefix}_${this.#unique}${index}`;
  }

  json({ status, items, usage, error, reason }: ResponseState): string {
    const fault = error === undefined ? "null" : JSON.stringify({ code: error.code, message: error.message });
    const repeated = this.#storedJson ?? this.#repeatedJson;
    return (
      `${this.#head},"status":"${status}","error":${fault},` +
      `"incomplete_details":${reason === undefined ? "null" : `{"reason":"${reason}"}`},${repeated},` +
      `"output":[${items.join(",")}],"usage":${usage === undefined ? "null" : responseUsageJson(usage)}}`
    );
  }
}

/** The final status of a response whose chat completion has this finish reason. */
export function endOf(finishReason: string): { readonly status: "completed" | "incomplete"; readonly reason?: string } {
  if (finishReason === "length") return { status: "incomplete", reason: "max_output_tokens" };
  if (finishReason === "content_filter") return { status: "incomplete", reason: "content_filter" };
  return { status: "completed" };
}

/** The JSON of a whole response. Its items are the reasoning, the message and the calls of the only choice. */
export function wholeResponseJson(response: ResponseObject, { choices, usage }: ChatCompletion): string {
  const [choice] = choices;
  const { status, reason } = endOf(choice?.finishReason ?? "stop");
  const items = choice === undefined ? [] : outputItems(response, choice, status);
  return response.json({ status, items, usage, reason });
}

/** The JSON of all items. `last`: status of the last item; all other items are completed. */
function outputItems(response: ResponseObject, { message, logprobs }: ChatChoice, last: ItemStatus): string[] {
  const { content, refusal, reasoningContent, toolCalls = [] } = message ?? {};
  const writers: ((index: number, status: ItemStatus) => string)[] = [];
  if (reasoningContent !== undefined) {
    const part = reasoningPartJson(jsonString(reasoningContent));
    writers.push((index, status) => reasoningItemJson(response.itemId("rs", index), status, [part]));
  }
  const parts: string[] = [];
  const wasCutInReasoning = content === "" && reasoningContent !== undefined && last === "incomplete";
  if (content !== undefined && !wasCutInReasoning) {
    parts.push(textPartJson(jsonString(content), logprobs === undefined ? "" : logprobEntriesJson(logprobs)));
  }
  if (refusal !== undefined) parts.push(refusalPartJson(jsonString(refusal)));
  if (parts.length > 0) {
    writers.push((index, status) => messageItemJson(response.itemId("msg", index), status, parts));
  }
  for (const { id: callId, function: called } of toolCalls) {
    const { name = "", argumentsJson = "" } = called ?? {};
    writers.push((index, status) => {
      const sent = argumentsJson === "" && status === "completed" ? "{}" : argumentsJson;
      return callItemJson(response.itemId("fc", index), status, { callId, name }, jsonString(sent));
    });
  }
  return writers.map((write, index) => write(index, index === writers.length - 1 ? last : "completed"));
}

/** The called function, and the id by which the call's output refers to the call (RSP-5). */
export interface CalledFunction {
  readonly callId: string;
  readonly name: string;
}

/** A message of the assistant; `parts` are JSON. */
export function messageItemJson(id: string, status: ItemStatus, parts: readonly string[]): string {
  return `{"id":"${id}","type":"message","status":"${status}","role":"assistant","content":[${parts.join(",")}]}`;
}

/** A function call. `argumentsJson` is a JSON string. */
export function callItemJson(id: string, status: ItemStatus, called: CalledFunction, argumentsJson: string): string {
  const callId = jsonString(called.callId);
  const name = jsonString(called.name);
  return `{"id":"${id}","type":"function_call","status":"${status}","call_id":${callId},"name":${name},"arguments":${argumentsJson}}`;
}

/** A reasoning item; `parts` are JSON. */
export function reasoningItemJson(id: string, status: ItemStatus, parts: readonly string[]): string {
  return `{"id":"${id}","type":"reasoning","status":"${status}","summary":[],"content":[${parts.join(",")}]}`;
}

/** A text part. `text` is a JSON string; `entries` are log probabilities without the brackets of their list. */
export function textPartJson(text: string, entries: string): string {
  return `{"type":"output_text","text":${text},"annotations":[],"logprobs":[${entries}]}`;
}

export function refusalPartJson(text: string): string {
  return `{"type":"refusal","refusal":${text}}`;
}

export function reasoningPartJson(text: string): string {
  return `{"type":"reasoning_text","text":${text}}`;
}

/** The entries of a list of log probabilities, without its brackets. */
export function logprobEntriesJson({ content }: Logprobs): string {
  return content
    .map((token) => JSON.stringify({ ...entryOf(token), top_logprobs: token.topLogprobs.map(entryOf) }))
    .join(",");
}

/** JSON cannot express minus infinity; OpenAI's replacement is -9999 (RESP-9). */
function entryOf({ token, logprob, utf8Bytes }: Omit<TopLogprob, "$typeName">): object {
  return { token, logprob: Math.max(logprob, -9999), bytes: utf8Bytes === undefined ? null : [...utf8Bytes] };
}

function responseUsageJson(usage: Usage): string {
  return (
    `{"input_tokens":${usage.promptTokens},` +
    `"input_tokens_details":{"cached_tokens":${usage.promptTokensDetails?.cachedTokens ?? 0}},` +
    `"output_tokens":${usage.completionTokens},` +
    `"output_tokens_details":{"reasoning_tokens":${usage.completionTokensDetails?.reasoningTokens ?? 0}},` +
    `"total_tokens":${usage.totalTokens}}`
  );
}
