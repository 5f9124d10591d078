import { create } from "@bufbuild/protobuf";
import {
  type AssistantMessage,
  type ChatChoice,
  type ChatChunkChoice,
  type ChatCompletion,
  type ChatCompletionChunk,
  type ChatDelta,
  Role,
  type ToolCallDelta,
  ToolCallSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import { type Logprobs, LogprobsSchema } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import { fixedLimits } from "../../contract/limits.js";
import type { Operation } from "../../contract/operations.js";
import { listOf } from "../../lib/collections.js";
import { rememberLast } from "../../lib/json-string.js";
import type { UsageTotal } from "../call/live-requests.js";
import { refuseValue } from "../call/service-error.js";
import type { GenEvent, LoadedModel, TokenLogprob, TokenLogprobInfo } from "../engine/engine.js";

/** Builds the chunks of a streamed answer from engine events. `choice` counts over the whole request. */
export interface StreamAssembly<M> {
  /** The chunks for an event, in order. */
  take(choice: number, event: GenEvent): readonly M[];
  /** The last chunk: usage without a choice. */
  last(usage: UsageTotal): M;
  /** Estimated memory of a chunk that waits for its reader. */
  bytesOf(chunk: M): number;
}

const secondsOf = rememberLast((seconds: number) => BigInt(seconds));
const fingerprintOf = rememberLast((ofModel: string) => `fp_${ofModel}`);

/** Id prefixes of answers, for the operations whose API defines its own prefix. */
export const answerPrefixes: ReadonlyMap<Operation, string> = new Map([
  ["create_response", "resp_"],
  ["create_message", "msg_"],
]);

/** Fields that all chunks of one answer share. */
export class AnswerIdentity {
  /** `chatcmpl-`, `cmpl-` or `resp_` and 24 random characters (RESP-15). */
  readonly id: string;
  /** Unix seconds (RESP-2). */
  readonly created: bigint;
  /** The model id as the client sent it (RESP-10). */
  readonly model: string;
  /** Choices of the whole request. */
  readonly choices: number;
  /** Undefined when the request named none (CHAT-23). */
  readonly serviceTier: string | undefined;
  /** `fp_` and the engine's fingerprint (RESP-11). */
  fingerprint = "fp_";

  constructor(id: string, nowMs: number, model: string, choices: number, serviceTier: string | undefined) {
    this.id = id;
    this.created = secondsOf(Math.floor(nowMs / 1000));
    this.model = model;
    this.choices = choices;
    this.serviceTier = serviceTier;
  }

  /** Sets the model that answers, before its first event. */
  answeredBy({ fingerprint }: Pick<LoadedModel, "fingerprint">): void {
    this.fingerprint = fingerprintOf(fingerprint);
  }
}

type ToolEvent = Extract<GenEvent, { type: "tool" }>;
type FinishEvent = Extract<GenEvent, { type: "finish" }>;

/**
 * A chat answer or a part of it. `native`: the upstream's original text, if the request belongs to another API family. The
 * transport of that family writes this text unchanged. The field never leaves the process.
 */
export type Piece<M> = M & { native?: string };

const deltaType = "unified.inference.v1.ChatDelta";

/**
 * Chunks of a streamed chat completion. Messages are literals: `create` would cost more than the rest of a chunk, and a
 * spread more than a literal (`limitSnapshot` says why).
 */
export class ChatStream implements StreamAssembly<ChatCompletionChunk> {
  readonly #identity: AnswerIdentity;
  #begun = false;

  constructor(identity: AnswerIdentity) {
    this.#identity = identity;
  }

  take(choice: number, event: GenEvent): readonly ChatCompletionChunk[] {
    const chunk = this.#chunkOf(choice, event);
    if (chunk === null) return [];
    if (this.#begun) return [chunk];
    this.#begun = true;
    return [...this.#firstChunks(event), chunk];
  }

  last(usage: UsageTotal): ChatCompletionChunk {
    const chunk = this.#chunk([]);
    chunk.usage = usageMessage(usage);
    return chunk;
  }

  bytesOf(chunk: ChatCompletionChunk): number {
    return chatChunkBytes(chunk);
  }

  /** A chunk without content. */
  empty(): ChatCompletionChunk {
    return this.#chunk([]);
  }

  /** The first chunks: the role of every choice, before any content (STRM-1, STRM-4). */
  #firstChunks(event: GenEvent): ChatCompletionChunk[] {
    const toolsOnly = event.type === "tool";
    return listOf(this.#identity.choices, (index) =>
      this.#choiceChunk(
        index,
        toolsOnly
          ? { $typeName: deltaType, role: Role.ASSISTANT, toolCalls: [] }
          : { $typeName: deltaType, role: Role.ASSISTANT, content: "", toolCalls: [] },
      ),
    );
  }

  #chunkOf(choice: number, event: GenEvent): ChatCompletionChunk | null {
    switch (event.type) {
      case "text":
        return this.#choiceChunk(
          choice,
          { $typeName: deltaType, content: event.text, toolCalls: [] },
          undefined,
          event.logprobs && chatLogprobs(event.logprobs),
        );
      case "reasoning":
        return this.#choiceChunk(choice, { $typeName: deltaType, reasoningContent: event.text, toolCalls: [] });
      case "refusal":
        return this.#choiceChunk(choice, { $typeName: deltaType, refusal: event.text, toolCalls: [] });
      case "tool":
        return this.#choiceChunk(choice, { $typeName: deltaType, toolCalls: [toolCallDelta(event)] });
      case "finish":
        return this.#finishChunk(choice, event);
      default:
        return null;
    }
  }

  #finishChunk(index: number, { reason, stopSequence }: FinishEvent): ChatCompletionChunk {
    const chunk = this.#choiceChunk(index, { $typeName: deltaType, toolCalls: [] }, reason);
    const [choice] = chunk.choices;
    if (choice !== undefined && stopSequence !== undefined) choice.stopSequence = stopSequence;
    return chunk;
  }

  #choiceChunk(index: number, delta: ChatDelta, finishReason?: string, logprobs?: Logprobs): ChatCompletionChunk {
    const choice: ChatChunkChoice = { $typeName: "unified.inference.v1.ChatChunkChoice", index, delta };
    if (finishReason !== undefined) choice.finishReason = finishReason;
    if (logprobs !== undefined) choice.logprobs = logprobs;
    return this.#chunk([choice]);
  }

  #chunk(choices: ChatChunkChoice[]): ChatCompletionChunk {
    const { id, created, model, fingerprint: systemFingerprint, serviceTier } = this.#identity;
    const $typeName = "unified.inference.v1.ChatCompletionChunk";
    const chunk: ChatCompletionChunk = { $typeName, id, created, model, choices, systemFingerprint };
    if (serviceTier !== undefined) chunk.serviceTier = serviceTier;
    return chunk;
  }
}

/** A call's id and name are in its first part only (STRM-7). */
function toolCallDelta(event: ToolEvent): ToolCallDelta {
  const delta: ToolCallDelta = { $typeName: "unified.inference.v1.ToolCallDelta", index: event.index };
  if (event.id !== undefined) delta.id = event.id;
  if (event.name !== undefined) delta.name = event.name;
  if (event.argsDelta !== undefined) delta.argumentsJson = event.argsDelta;
  return delta;
}

export interface Choice {
  text: string;
  reasoning: string;
  refusal: string;
  calls: { id: string; name: string; args: string }[];
  finishReason: string;
  stopSequence: string | null;
  logprobs: TokenLogprobInfo[] | null;
  native?: string;
}

function emptyChoice(): Choice {
  return { text: "", reasoning: "", refusal: "", calls: [], finishReason: "", stopSequence: null, logprobs: null };
}

/** The choices of a whole answer, collected from engine events. */
export class CollectedChoices {
  readonly choices: Choice[];

  constructor(count: number) {
    this.choices = listOf(count, emptyChoice);
  }

  /** Throws ServiceError for more positions than a whole answer may have. */
  #addLogprobs(choice: Choice, positions: readonly TokenLogprobInfo[]): void {
    choice.logprobs ??= [];
    for (const position of positions) choice.logprobs.push(position);
    const count = this.choices.reduce((sum, { logprobs }) => sum + (logprobs?.length ?? 0), 0);
    const { wholeLogprobsMax } = fixedLimits;
    if (count <= wholeLogprobsMax) return;
    refuseValue(
      "logprobs",
      `An answer that is not streamed may have log probabilities of at most ${wholeLogprobsMax} tokens. ` +
        "Set 'stream' to true, or ask for fewer tokens in one request.",
    );
  }

  /** Discards the content collected so far for `count` choices, starting with the choice `first`. */
  restart(first: number, count: number): void {
    for (let index = first; index < first + count; index++) this.choices[index] = emptyChoice();
  }

  take(index: number, event: GenEvent): void {
    const choice = this.choices[index];
    if (choice === undefined) return;
    if (event.type === "text") {
      choice.text += event.text;
      if (event.logprobs !== undefined) this.#addLogprobs(choice, event.logprobs);
    } else if (event.type === "reasoning" || event.type === "refusal") choice[event.type] += event.text;
    else if (event.type === "native") choice.native = event.text;
    else if (event.type === "finish") {
      choice.finishReason = event.reason;
      choice.stopSequence = event.stopSequence ?? null;
    } else if (event.type === "tool") {
      choice.calls[event.index] ??= { id: "", name: "", args: "" };
      const call = choice.calls[event.index];
      if (call === undefined) return;
      if (event.id !== undefined) call.id = event.id;
      if (event.name !== undefined) call.name = event.name;
      call.args += event.argsDelta ?? "";
    }
  }
}

/** A whole chat completion. Messages are literals, as in ChatStream. */
export function wholeChat(
  identity: AnswerIdentity,
  choices: readonly Choice[],
  usage: UsageTotal,
): Piece<ChatCompletion> {
  const completion: Piece<ChatCompletion> = {
    $typeName: "unified.inference.v1.ChatCompletion",
    id: identity.id,
    created: identity.created,
    model: identity.model,
    choices: choices.map(chatChoice),
    usage: usageMessage(usage),
    systemFingerprint: identity.fingerprint,
  };
  if (identity.serviceTier !== undefined) completion.serviceTier = identity.serviceTier;
  const native = choices[0]?.native;
  if (native !== undefined) completion.native = native;
  return completion;
}

function chatChoice(choice: Choice, index: number): ChatChoice {
  const answer: ChatChoice = {
    $typeName: "unified.inference.v1.ChatChoice",
    index,
    message: assistantMessage(choice),
    finishReason: choice.finishReason,
  };
  if (choice.stopSequence !== null) answer.stopSequence = choice.stopSequence;
  if (choice.logprobs !== null) answer.logprobs = chatLogprobs(choice.logprobs);
  return answer;
}

function assistantMessage({ text, reasoning, refusal, calls }: Choice): AssistantMessage {
  const message: AssistantMessage = {
    $typeName: "unified.inference.v1.AssistantMessage",
    role: Role.ASSISTANT,
    toolCalls: calls.map(({ id, name, args }) =>
      create(ToolCallSchema, { id, function: { name, argumentsJson: args } }),
    ),
  };
  // Absent if there are tool calls (RESP-5) or a refusal and no text, otherwise a string, possibly empty.
  if ((calls.length === 0 && refusal === "") || text !== "") message.content = text;
  if (refusal !== "") message.refusal = refusal;
  if (reasoning !== "") message.reasoningContent = reasoning;
  return message;
}

/** Usage of a generated answer (RESP-8), built as a literal for speed. */
export function usageMessage(total: UsageTotal): Usage {
  return {
    $typeName: "unified.inference.v1.Usage",
    promptTokens: total.promptTokens,
    completionTokens: total.completionTokens,
    totalTokens: total.promptTokens + total.completionTokens,
    promptTokensDetails: {
      $typeName: "unified.inference.v1.PromptTokensDetails",
      cachedTokens: total.cachedTokens,
    },
    completionTokensDetails: {
      $typeName: "unified.inference.v1.CompletionTokensDetails",
      reasoningTokens: total.reasoningTokens,
    },
  };
}

const utf8 = new TextEncoder();

/** Log probabilities in chat's form (RESP-9). */
export function chatLogprobs(tokens: readonly TokenLogprobInfo[]): Logprobs {
  return create(LogprobsSchema, {
    content: tokens.map((info) => ({ ...entry(info), topLogprobs: info.top.map(entry) })),
  });
}

function entry({ token, logprob, bytes }: TokenLogprob): { token: string; logprob: number; utf8Bytes: Uint8Array } {
  return { token, logprob, utf8Bytes: bytes === undefined ? utf8.encode(token) : Uint8Array.from(bytes) };
}

/**
 * Completes tool calls without arguments with `{}` (TOOL-11, STRM-9), because some engines omit it. A call that was cut off
 * by a length limit stays unchanged. The calls of a choice arrive one after the other, so only one call per choice is
 * tracked.
 */
export class CompleteCalls {
  /** The open call of each choice while it has no arguments; null until the first call. */
  #bare: Map<number, ToolEvent> | null = null;

  /** The event to insert before this one, or null. */
  before(event: GenEvent): ToolEvent | null {
    if (event.type !== "tool" && event.type !== "finish") return null;
    const bare = this.#bare?.get(event.choice);
    const continues = event.type === "tool" && event.index === bare?.index;
    if (event.type === "finish") this.#bare?.delete(event.choice);
    else {
      const isNew = !continues && event.id !== undefined;
      const hasArguments = (event.argsDelta ?? "") !== "";
      if (isNew && !hasArguments) {
        this.#bare ??= new Map();
        this.#bare.set(event.choice, event);
      } else if (isNew || hasArguments) this.#bare?.delete(event.choice);
    }
    const isCut = event.type === "finish" && event.reason === "length";
    if (bare === undefined || continues || isCut) return null;
    const { choice, index, outTokens } = bare;
    return { type: "tool", choice, index, outTokens, argsDelta: "{}" };
  }
}

/** Measured heap size of a chunk with one choice and an entry of a queue, without its text. */
export const chunkBytes = 384;
/** The same for one token of log probabilities, or one alternative. */
export const logprobBytes = 320;

/** Estimated heap size of a chunk that waits for its reader: objects count, because most chunks are a few characters of text. */
export function chatChunkBytes({ choices, native }: ChatCompletionChunk & { readonly native?: string }): number {
  const choice = choices[0];
  // The core's chunks have at most one choice.
  if (choice === undefined) return chunkBytes + (native?.length ?? 0);
  const { delta, logprobs } = choice;
  let bytes = chunkBytes;
  if (delta !== undefined) {
    const { content, reasoningContent, refusal, toolCalls } = delta;
    bytes += (content ?? reasoningContent ?? refusal ?? "").length;
    if (toolCalls.length > 0) bytes += toolCalls.reduce((sum, call) => sum + (call.argumentsJson?.length ?? 0), 0);
  }
  if (logprobs === undefined) return bytes;
  return logprobs.content.reduce((sum, { topLogprobs }) => sum + logprobBytes * (1 + topLogprobs.length), bytes);
}
