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
import type { Logprobs } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { GenEvent, TokenLogprobInfo } from "../engine/engine.js";
import {
  type AnswerIdentity,
  chatLogprobs,
  type StreamAssembly,
  usageMessage,
  type WholeAssembly,
} from "./answer-parts.js";

type DeltaFields = Omit<ChatDelta, "$typeName" | "toolCalls"> & { toolCalls?: ToolCallDelta[] };

/** Chunks of a streamed chat completion. Messages are literals: `create` would cost more than the rest of a chunk. */
export class ChatStream implements StreamAssembly<ChatCompletionChunk> {
  readonly #identity: AnswerIdentity;
  readonly #choices: number;
  readonly #serviceTier: string | undefined;
  #begun = false;

  constructor(identity: AnswerIdentity, choices: number, serviceTier: string | undefined) {
    this.#identity = identity;
    this.#choices = choices;
    this.#serviceTier = serviceTier;
  }

  take(choice: number, event: GenEvent): readonly ChatCompletionChunk[] {
    const chunk = this.#chunkOf(choice, event);
    if (chunk === null) return [];
    if (this.#begun) return [chunk];
    this.#begun = true;
    return [...this.#firstChunks(event), chunk];
  }

  last(usage: UsageTotal): ChatCompletionChunk {
    return { ...this.#chunk([]), usage: usageMessage(usage) };
  }

  /** The first chunks: the role of every choice, before any content (STRM-1, STRM-4). */
  #firstChunks(event: GenEvent): ChatCompletionChunk[] {
    const toolsOnly = event.type === "tool";
    return Array.from({ length: this.#choices }, (_, index) =>
      this.#choiceChunk(index, toolsOnly ? { role: Role.ASSISTANT } : { role: Role.ASSISTANT, content: "" }),
    );
  }

  #chunkOf(choice: number, event: GenEvent): ChatCompletionChunk | null {
    switch (event.type) {
      case "text":
        return this.#choiceChunk(
          choice,
          { content: event.text },
          undefined,
          event.logprobs && chatLogprobs(event.logprobs),
        );
      case "reasoning":
        return this.#choiceChunk(choice, { reasoningContent: event.text });
      case "tool":
        return this.#choiceChunk(choice, { toolCalls: [toolCallDelta(event)] });
      case "finish":
        return this.#choiceChunk(choice, {}, event.reason);
      default:
        return null;
    }
  }

  #choiceChunk(index: number, fields: DeltaFields, finishReason?: string, logprobs?: Logprobs): ChatCompletionChunk {
    const choice: ChatChunkChoice = {
      $typeName: "unified.inference.v1.ChatChunkChoice",
      index,
      delta: { $typeName: "unified.inference.v1.ChatDelta", ...fields, toolCalls: fields.toolCalls ?? [] },
    };
    if (finishReason !== undefined) choice.finishReason = finishReason;
    if (logprobs !== undefined) choice.logprobs = logprobs;
    return this.#chunk([choice]);
  }

  #chunk(choices: ChatChunkChoice[]): ChatCompletionChunk {
    const chunk: ChatCompletionChunk = {
      $typeName: "unified.inference.v1.ChatCompletionChunk",
      id: this.#identity.id,
      created: this.#identity.created,
      model: this.#identity.model,
      choices,
      systemFingerprint: this.#identity.fingerprint,
    };
    if (this.#serviceTier !== undefined) chunk.serviceTier = this.#serviceTier;
    return chunk;
  }
}

/** A call's id and name are in its first part only (STRM-7). */
function toolCallDelta(event: Extract<GenEvent, { type: "tool" }>): ToolCallDelta {
  const delta: ToolCallDelta = { $typeName: "unified.inference.v1.ToolCallDelta", index: event.index };
  if (event.id !== undefined) delta.id = event.id;
  if (event.name !== undefined) delta.name = event.name;
  if (event.argsDelta !== undefined) delta.argumentsJson = event.argsDelta;
  return delta;
}

interface Call {
  id: string;
  name: string;
  args: string;
}

interface Choice {
  text: string;
  reasoning: string;
  calls: Call[];
  finishReason: string;
  logprobs: TokenLogprobInfo[] | null;
}

/** A whole chat completion. Messages are literals, as in ChatStream. */
export class ChatWhole implements WholeAssembly<ChatCompletion> {
  readonly #identity: AnswerIdentity;
  readonly #serviceTier: string | undefined;
  readonly #choices: Choice[] = [];

  constructor(identity: AnswerIdentity, choices: number, serviceTier: string | undefined) {
    this.#identity = identity;
    this.#serviceTier = serviceTier;
    for (let i = 0; i < choices; i++)
      this.#choices.push({ text: "", reasoning: "", calls: [], finishReason: "", logprobs: null });
  }

  take(index: number, event: GenEvent): void {
    const choice = this.#choices[index];
    if (choice === undefined) return;
    if (event.type === "text") {
      choice.text += event.text;
      if (event.logprobs !== undefined) choice.logprobs = [...(choice.logprobs ?? []), ...event.logprobs];
    } else if (event.type === "reasoning") choice.reasoning += event.text;
    else if (event.type === "tool") takeCall(choice.calls, event);
    else if (event.type === "finish") choice.finishReason = event.reason;
  }

  build(usage: UsageTotal): ChatCompletion {
    const completion: ChatCompletion = {
      $typeName: "unified.inference.v1.ChatCompletion",
      id: this.#identity.id,
      created: this.#identity.created,
      model: this.#identity.model,
      choices: this.#choices.map(chatChoice),
      usage: usageMessage(usage),
      systemFingerprint: this.#identity.fingerprint,
    };
    if (this.#serviceTier !== undefined) completion.serviceTier = this.#serviceTier;
    return completion;
  }
}

function takeCall(calls: Call[], event: Extract<GenEvent, { type: "tool" }>): void {
  calls[event.index] ??= { id: "", name: "", args: "" };
  const call = calls[event.index];
  if (call === undefined) return;
  if (event.id !== undefined) call.id = event.id;
  if (event.name !== undefined) call.name = event.name;
  call.args += event.argsDelta ?? "";
}

function chatChoice(choice: Choice, index: number): ChatChoice {
  const made: ChatChoice = {
    $typeName: "unified.inference.v1.ChatChoice",
    index,
    message: assistantMessage(choice),
    finishReason: choice.finishReason,
  };
  if (choice.logprobs !== null) made.logprobs = chatLogprobs(choice.logprobs);
  return made;
}

function assistantMessage({ text, reasoning, calls }: Choice): AssistantMessage {
  const message: AssistantMessage = {
    $typeName: "unified.inference.v1.AssistantMessage",
    role: Role.ASSISTANT,
    toolCalls: calls.map(({ id, name, args }) =>
      create(ToolCallSchema, { id, function: { name, argumentsJson: args } }),
    ),
  };
  // Absent beside tool calls (RESP-5), otherwise a string, possibly empty.
  if (calls.length === 0 || text !== "") message.content = text;
  if (reasoning !== "") message.reasoningContent = reasoning;
  return message;
}
