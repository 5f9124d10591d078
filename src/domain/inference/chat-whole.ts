import { create } from "@bufbuild/protobuf";
import {
  type AssistantMessage,
  type ChatChoice,
  type ChatCompletion,
  Role,
  ToolCallSchema,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { UsageTotal } from "../call/usage-tally.js";
import type { GenEvent, TokenLogprobInfo } from "../engine/engine.js";
import type { AnswerIdentity } from "./answer-identity.js";
import type { WholeAssembly } from "./assembly.js";
import { chatLogprobs } from "./logprob-messages.js";
import { usageMessage } from "./usage-message.js";

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

/** A chat completion from all its events. Messages are literals where every answer has them, as in ChatStream. */
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
  // Absent beside tool calls (RESP-5), otherwise a string, be it empty.
  if (calls.length === 0 || text !== "") message.content = text;
  if (reasoning !== "") message.reasoningContent = reasoning;
  return message;
}
