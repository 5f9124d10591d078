import { toBinary } from "@bufbuild/protobuf";
import { type Message, MessageSchema, ToolSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import {
  type EmbedRequest,
  EngineError,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
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

/** The model that counts prompts; null while none is loaded. */
export type CountingModel = Pick<LoadedModel, "caps" | "countTokens">;

/** Reserved output of a request without a maximum. */
const outputTokensDefault = 1_024;
/** Bytes per token, chosen low: estimates are too high rather than too low. */
const bytesPerToken = 3;

/** Sum over all prompts: the prompt, and per choice the maximum output or the rest of the context. */
export async function reserveForPrompts(
  model: CountingModel | null,
  prompts: readonly Prompt[],
  stop: AbortFlag,
): Promise<Reservation> {
  const counted = await Promise.all(
    prompts.map(({ request, countsPrompt }) => (countsPrompt ? count(model, request.input, stop, request) : null)),
  );
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
}

/** Sum over all inputs of an embeddings request. */
export async function reserveForInputs(
  model: CountingModel | null,
  { inputs }: EmbedRequest,
  stop: AbortFlag,
): Promise<Reservation> {
  const { tokens, isCounted } = await countEach(model, inputs, stop);
  return { promptTokens: sum(tokens), outputTokens: 0, isCounted };
}

/**
 * Upper bound for a rerank request: many engines read the query again with each document. Whether this engine does so is
 * known only after it has run, so the result counts as an estimate.
 */
export async function reserveForRanking(
  model: CountingModel | null,
  { query, documents }: RerankRequest,
  stop: AbortFlag,
): Promise<Reservation> {
  const [queryTokens = 0, ...documentTokens] = (await countEach(model, [query, ...documents], stop)).tokens;
  return { promptTokens: queryTokens * documents.length + sum(documentTokens), outputTokens: 0, isCounted: false };
}

async function countEach(
  model: CountingModel | null,
  prompts: EmbedRequest["inputs"],
  stop: AbortFlag,
): Promise<{ readonly tokens: readonly number[]; readonly isCounted: boolean }> {
  const counted = await Promise.all(prompts.map((prompt) => count(model, { prompt }, stop)));
  const tokens = prompts.map((prompt, i) => counted[i] ?? estimate({ prompt }));
  return { tokens, isCounted: !counted.includes(null) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Null when the engine cannot count. Errors surface when the request runs. */
async function count(
  model: CountingModel | null,
  input: GenerateInput,
  stop: AbortFlag,
  options?: GenerateRequest,
): Promise<number | null> {
  if (model === null) return null;
  try {
    return await model.countTokens(input, stop, options);
  } catch (thrown) {
    if (thrown instanceof EngineError) return null;
    throw thrown;
  }
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
