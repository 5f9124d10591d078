import type { Operation } from "../contract/operations.js";

/** What OpenTelemetry's conventions call the operations that run a model. Others have no name there. */
export const genAiOperations: ReadonlyMap<Operation, string> = new Map([
  ["create_chat_completion", "chat"],
  ["create_completion", "text_completion"],
  ["create_embeddings", "embeddings"],
]);

/** `gen_ai.provider.name` of engines of our own. */
export const genAiProvider = "unified_inference";

/**
 * Attributes of spans in OpenTelemetry's conventions for generative AI, which still change. None of those that hold
 * content is among them (SEC-18).
 */
export const attributes = {
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  maxTokens: "gen_ai.request.max_tokens",
  temperature: "gen_ai.request.temperature",
  topP: "gen_ai.request.top_p",
  stopSequences: "gen_ai.request.stop_sequences",
  choices: "gen_ai.request.choice.count",
  seed: "gen_ai.request.seed",
  stream: "gen_ai.request.stream",
  responseId: "gen_ai.response.id",
  responseModel: "gen_ai.response.model",
  finishReasons: "gen_ai.response.finish_reasons",
  timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cachedTokens: "gen_ai.usage.cache_read.input_tokens",
  serverAddress: "server.address",
  serverPort: "server.port",
  errorType: "error.type",
  requestId: "uis.request_id",
  transport: "uis.transport",
} as const;
