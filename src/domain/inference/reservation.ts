import { toBinary } from "@bufbuild/protobuf";
import { type Message, MessageSchema, ToolSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import {
  type EmbedRequest,
  EngineError,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
  type PromptOptions,
  type RerankRequest,
} from "../engine/engine.js";
import type { Prompt } from "./chat-request.js";

/** Upper bound of a request's usage, before it runs (state RL-5). Integers. */
export interface Reservation {
  readonly promptTokens: number;
  /** Whether the engine counted the prompt; false for an estimate. */
  readonly isCounted: boolean;
  readonly outputTokens: number;
}

/** The model that counts prompts, if its engine can. */
export type CountingModel = Pick<LoadedModel, "caps" | "countTokens">;

/** Reserved output of a request without a maximum. */
const outputTokensDefault = 1_024;
/** Bytes per token, chosen low: estimates are too high rather than too low. */
const bytesPerToken = 3;

/** Returns a promise only if the engine counts: its many steps would be a twentieth of a short request. */
export type Reserving = Reservation | Promise<Reservation>;

/** Sum over all prompts: the prompt, and per choice the maximum output or the rest of the context. */
export function reserveForPrompts(model: CountingModel | null, prompts: readonly Prompt[], stop: AbortFlag): Reserving {
  const toCount = prompts.map(({ request, countsPrompt }) => (countsPrompt ? request : null));
  return withCounts(model, toCount, stop, (counted) => {
    let promptTokens = 0;
    let outputTokens = 0;
    let ownTokens = 0;
    prompts.forEach(({ request, countsPrompt }, i) => {
      if (countsPrompt) {
        ownTokens = counted[i] ?? estimate(request.input);
        promptTokens += ownTokens;
      }
      outputTokens += request.n * outputPerChoice(request, ownTokens, model);
    });
    const isCounted = prompts.every(({ countsPrompt }, i) => !countsPrompt || counted[i] !== null);
    return { promptTokens, outputTokens, isCounted };
  });
}

/** Sum over all inputs of an embeddings request. */
export function reserveForInputs(model: CountingModel | null, { inputs }: EmbedRequest, stop: AbortFlag): Reserving {
  return withCounts(model, inputs.map(toInput), stop, (counted) => ({
    promptTokens: sum(tokensOf(inputs, counted)),
    outputTokens: 0,
    isCounted: !counted.includes(null),
  }));
}

/**
 * Upper bound for a rerank request: many engines read the query again with each document. Whether this engine does so is
 * known only after it has run, so the result counts as an estimate.
 */
export function reserveForRanking(
  model: CountingModel | null,
  { query, documents }: RerankRequest,
  stop: AbortFlag,
): Reserving {
  const texts = [query, ...documents];
  return withCounts(model, texts.map(toInput), stop, (counted) => {
    const [queryTokens = 0, ...documentTokens] = tokensOf(texts, counted);
    return { promptTokens: queryTokens * documents.length + sum(documentTokens), outputTokens: 0, isCounted: false };
  });
}

/** A prompt with the options that its template depends on. */
interface Countable extends PromptOptions {
  readonly input: GenerateInput;
}

/** Tokens of each prompt; null: not counted. */
type Counts = readonly (number | null)[];

/** Calls `use` with the tokens of each prompt, as far as the engine can count. Null for a prompt: it need not be counted. */
function withCounts(
  model: CountingModel | null,
  prompts: readonly (Countable | null)[],
  stop: AbortFlag,
  use: (counted: Counts) => Reservation,
): Reserving {
  if (!canCount(model)) return use(prompts.map(() => null));
  return Promise.all(prompts.map((prompt) => (prompt === null ? null : count(model, prompt, stop)))).then(use);
}

type Counting = Required<CountingModel>;

export function canCount(model: CountingModel | null): model is Counting {
  return model?.countTokens !== undefined;
}

/** Null when the engine cannot count. Errors surface when the request runs. */
async function count(model: Counting, prompt: Countable, stop: AbortFlag): Promise<number | null> {
  try {
    return await model.countTokens(prompt.input, stop, prompt);
  } catch (thrown) {
    if (thrown instanceof EngineError) return null;
    throw thrown;
  }
}

function toInput(prompt: EmbedRequest["inputs"][number]): Countable {
  return { input: { prompt } };
}

function tokensOf(prompts: EmbedRequest["inputs"], counted: Counts): number[] {
  return prompts.map((prompt, i) => counted[i] ?? estimate({ prompt }));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function estimate(input: GenerateInput): number {
  if (!("prompt" in input)) {
    let bytes = 0;
    for (const message of input.messages) bytes += bytesOf(message);
    for (const tool of input.tools) bytes += toBinary(ToolSchema, tool).length;
    return tokensOfBytes(bytes);
  }
  const { prompt } = input;
  return typeof prompt === "string" ? tokensOfBytes(Buffer.byteLength(prompt)) : prompt.length;
}

/** Bytes for the role of a message and for the template's markers around the message and around each of its parts. */
const frameBytes = 6;

/** Bytes of a message. Nearly all messages have only text, which is counted without serializing the message. */
function bytesOf(message: Message): number {
  let bytes = frameBytes;
  for (const { part } of message.content) {
    if (part.case !== "text") return toBinary(MessageSchema, message).length;
    bytes += Buffer.byteLength(part.value) + frameBytes;
  }
  return message.toolCalls.length > 0 ? toBinary(MessageSchema, message).length : bytes;
}

/** Estimated tokens of a prompt and its answers, to compare the load of deployments. */
export function estimateTokens({ input, n, maxTokens }: GenerateRequest): number {
  return estimate(input) + n * (maxTokens ?? outputTokensDefault);
}

function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** An answer cannot be longer than the rest of the model's context, whatever maximum was requested. */
function outputPerChoice({ maxTokens }: GenerateRequest, promptTokens: number, model: CountingModel | null): number {
  const requested = maxTokens ?? outputTokensDefault;
  if (model === null) return requested;
  const { contextLength, maxOutput } = model.caps;
  const { POSITIVE_INFINITY: unknown } = Number;
  return Math.max(0, Math.min(requested, maxOutput ?? unknown, (contextLength ?? unknown) - promptTokens));
}
