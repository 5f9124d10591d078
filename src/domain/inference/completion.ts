import { create } from "@bufbuild/protobuf";
import {
  type Completion,
  type CompletionChunk,
  type CompletionChunkChoice,
  type CompletionLogprobs,
  type CompletionParams,
  CompletionSchema,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import { fixedLimits, type ServiceLimits } from "../../contract/limits.js";
import type { UsageTotal } from "../call/live-requests.js";
import { checkCount, checkInteger, checkLength, checkPresent, refuse, refuseValue } from "../call/service-error.js";
import type { Capabilities, GenEvent, GenerateRequest, RequestDefaults, TokenLogprobInfo } from "../engine/engine.js";
import {
  type AnswerIdentity,
  type Choice,
  chunkBytes,
  logprobBytes,
  type StreamAssembly,
  usageMessage,
} from "./chat-answer.js";
import {
  hasKeys,
  refuseUnlessAble,
  refuseUnlessTokenInput,
  refuseValueUnlessAble,
  toGenerate,
} from "./chat-request.js";
import { addConstraints } from "./constraints.js";
import { validateSampling, validateTokenLists } from "./validate-chat.js";

const logprobsMax = 5;
const bestOfMax = 20;

/** Validates a completions request as far as no model is needed. Throws ServiceError. */
export function validateCompletion(params: CompletionParams, limits: ServiceLimits): void {
  checkPresent(params.model, "model");
  validateSampling(params, limits);
  validatePrompts(params, limits);
  checkInteger(params.maxTokens, "max_tokens", 0, fixedLimits.int32Max);
  if (params.maxTokens === 0 && params.echo !== true) {
    refuse("integer_below_min_value", "max_tokens", "'max_tokens' must be at least 1 without 'echo', but is 0.");
  }
  checkInteger(params.logprobs, "logprobs", 0, logprobsMax);
  validateBestOf(params);
  checkLength(params.user, "user", fixedLimits.userCharsMax);
}

function validatePrompts({ prompt, promptTokens, n }: CompletionParams, limits: ServiceLimits): void {
  const count = prompt.length + promptTokens.length;
  if (count === 0) refuse("missing_required_parameter", "prompt", "'prompt' is required, but is missing or empty.");
  if (prompt.length > 0 && promptTokens.length > 0) {
    refuseValue("prompt", "'prompt' must be texts or token ids, but is both.");
  }
  checkCount(count, "prompt", limits.choicesMax);
  validateTokenLists(promptTokens, "prompt");
  const choices = count * (n ?? 1);
  if (choices > limits.choicesMax) {
    refuse(
      "integer_above_max_value",
      "n",
      `'n' times the number of prompts may be at most ${limits.choicesMax}, but is ${choices}.`,
    );
  }
}

/** `best_of` is not supported, so only values without effect pass (CMPL-10). */
function validateBestOf({ bestOf, n }: CompletionParams): void {
  checkInteger(bestOf, "best_of", 0, bestOfMax);
  if (bestOf === undefined || bestOf === 1 || bestOf === (n ?? 1)) return;
  refuse("unsupported_parameter", "best_of", `'best_of' may only be 1 or the value of 'n' here, but is ${bestOf}.`);
}

/**
 * Builds the engine requests of a valid request, one per prompt in order. Throws for a feature that the model does not
 * support.
 */
export function toCompletionRequests(
  params: CompletionParams,
  caps: Capabilities,
  defaults: RequestDefaults | null,
): readonly GenerateRequest[] {
  const { model, logprobs, echo } = params;
  refuseUnlessTokenInput(caps.tokenInput || params.promptTokens.length === 0, "prompt", model);
  // No engine supports a suffix, and the engine interface has no field for it.
  refuseUnlessAble(params.suffix === undefined || params.suffix === "", "suffix", model);
  refuseValueUnlessAble(
    caps.echoLogprobs || echo !== true || logprobs === undefined,
    "Log probabilities of an echoed prompt are",
    "logprobs",
    model,
  );
  refuseValueUnlessAble(
    caps.logprobs === 0 || (logprobs ?? 0) <= caps.logprobs,
    `More than ${caps.logprobs} alternatives per token are`,
    "logprobs",
    model,
  );
  const prompts = params.prompt.length > 0 ? params.prompt : params.promptTokens.map((list) => list.ids);
  const options = { maxTokens: params.maxTokens, logprobs };
  const request = toGenerate({ prompt: prompts[0] ?? "" }, params, options, caps, defaults);
  if (echo === true) request.echo = echo;
  const { user, passThroughJson: fieldsJson } = params;
  const hasFields = hasKeys(fieldsJson);
  if (user !== undefined || hasFields) {
    request.passOn = { ...(user === undefined ? {} : { user }), ...(hasFields ? { fieldsJson } : {}) };
  }
  if (hasFields) addConstraints(request, fieldsJson, caps, model);
  return prompts.map((prompt) => ({ ...request, input: { prompt } }));
}

/** Chunks of a streamed text completion: no role and no delta (CMPL-6). Literals, as in ChatStream. */
export class CompletionStream implements StreamAssembly<CompletionChunk> {
  readonly #identity: AnswerIdentity;
  /** Characters of each choice so far, for log probabilities. */
  readonly #offsets: number[] = [];

  constructor(identity: AnswerIdentity) {
    this.#identity = identity;
  }

  take(choice: number, event: GenEvent): readonly CompletionChunk[] {
    if (event.type === "text")
      return [this.#chunk([choiceOf(choice, event.text, undefined, this.#logprobs(choice, event))])];
    if (event.type === "finish") return [this.#chunk([choiceOf(choice, "", event.reason)])];
    return [];
  }

  last(usage: UsageTotal): CompletionChunk {
    const chunk = this.#chunk([]);
    chunk.usage = usageMessage(usage);
    return chunk;
  }

  bytesOf(chunk: CompletionChunk): number {
    return completionChunkBytes(chunk);
  }

  #logprobs(choice: number, event: Extract<GenEvent, { type: "text" }>): CompletionLogprobs | undefined {
    if (event.logprobs === undefined) return undefined;
    const offset = this.#offsets[choice] ?? 0;
    this.#offsets[choice] = offset + characters(event.text);
    return completionLogprobs(event.logprobs, offset);
  }

  #chunk(choices: CompletionChunkChoice[]): CompletionChunk {
    const { id, created, model, fingerprint: systemFingerprint } = this.#identity;
    return { $typeName: "unified.inference.v1.CompletionChunk", id, created, model, choices, systemFingerprint };
  }
}

function choiceOf(
  index: number,
  text: string,
  finishReason?: string,
  logprobs?: CompletionLogprobs,
): CompletionChunkChoice {
  const choice: CompletionChunkChoice = { $typeName: "unified.inference.v1.CompletionChunkChoice", index, text };
  if (finishReason !== undefined) choice.finishReason = finishReason;
  if (logprobs !== undefined) choice.logprobs = logprobs;
  return choice;
}

/** A whole text completion. */
export function wholeCompletion(identity: AnswerIdentity, choices: readonly Choice[], usage: UsageTotal): Completion {
  return create(CompletionSchema, {
    id: identity.id,
    created: identity.created,
    model: identity.model,
    choices: choices.map(({ text, finishReason, logprobs }, index) => ({
      index,
      text,
      finishReason,
      ...(logprobs === null ? {} : { logprobs: completionLogprobs(logprobs, 0) }),
    })),
    usage: usageMessage(usage),
    systemFingerprint: identity.fingerprint,
  });
}

/**
 * Log probabilities of text completions (CMPL-7); `offset` is the position of the first token in characters. The first
 * token of an echoed prompt has NaN and no alternatives (CMPL-8).
 */
export function completionLogprobs(tokens: readonly TokenLogprobInfo[], offset: number): CompletionLogprobs {
  const lists: CompletionLogprobs = {
    $typeName: "unified.inference.v1.CompletionLogprobs",
    tokens: [],
    tokenLogprobs: [],
    topLogprobs: [],
    textOffset: [],
  };
  let position = offset;
  for (const { token, logprob, top, bytes } of tokens) {
    const logprobs: Record<string, number> = {};
    for (const other of top) logprobs[other.token] = other.logprob;
    if (!Number.isNaN(logprob)) logprobs[token] = logprob;
    lists.tokens.push(token);
    lists.tokenLogprobs.push(logprob);
    lists.topLogprobs.push({ $typeName: "unified.inference.v1.TokenAlternatives", logprobs });
    lists.textOffset.push(position);
    // The token is a part of a character: counts each byte that begins a character, which UTF-8 continuation bytes do not.
    position += bytes?.filter((byte) => byte < 0x80 || byte > 0xbf).length ?? characters(token);
  }
  return lists;
}

/** Length in code points. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** chatChunkBytes for a chunk of a text completion. */
export function completionChunkBytes({ choices }: CompletionChunk): number {
  let bytes = chunkBytes;
  for (const { text, logprobs } of choices) {
    bytes += text.length;
    for (const alternatives of logprobs?.topLogprobs ?? []) {
      bytes += logprobBytes * Object.keys(alternatives.logprobs).length;
    }
    bytes += logprobBytes * (logprobs?.tokens.length ?? 0);
  }
  return bytes;
}
