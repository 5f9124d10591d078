import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { errorRow } from "../../contract/errors.js";
import { inferenceNames, type Operation } from "../../contract/operations.js";
import { type CallDetails, type CallEnd, type CallTracer, parseTraceparent } from "../../domain/call/observer.js";

/** The address of the listener that serves a transport. */
type ListenerOf = (transport: CallEnd["transport"]) => { readonly host: string; readonly port: number };

/**
 * Creates the spans of a call when it has ended: one for the call and a child for the engine. All their times are known then,
 * so no span exists while a call runs.
 */
export class SpanWriter implements CallTracer {
  readonly #tracer: Tracer;
  readonly #listenerOf: ListenerOf;

  constructor(tracer: Tracer, listenerOf: ListenerOf) {
    this.#tracer = tracer;
    this.#listenerOf = listenerOf;
  }

  trace(end: CallEnd): string {
    const parent = parentContext(end.traceparent);
    const startTime = end.receivedAtMs;
    const span = this.#tracer.startSpan(nameOf(end), { kind: SpanKind.SERVER, startTime }, parent);
    if (span.isRecording()) {
      const { host, port } = this.#listenerOf(end.transport);
      span.setAttributes({ ...attributesOf(end), [attributes.serverAddress]: host, [attributes.serverPort]: port });
      if (isFault(end)) span.setStatus({ code: SpanStatusCode.ERROR });
      this.#traceEngine(end, trace.setSpan(parent, span));
    }
    span.end(startTime + end.durationMs);
    return span.spanContext().traceId;
  }

  #traceEngine({ model, operation, receivedAtMs, times }: CallEnd, parent: Context): void {
    const { engineBeganMs, engineMs } = times;
    if (engineBeganMs === null || engineMs === null) return;
    const startTime = receivedAtMs + engineBeganMs;
    const about: Attributes = {
      [attributes.operation]: genAiOperations.get(operation),
      [attributes.provider]: genAiProvider,
      [attributes.requestModel]: model ?? undefined,
    };
    const options = { kind: SpanKind.INTERNAL, startTime, attributes: about };
    this.#tracer.startSpan(`engine ${model}`, options, parent).end(startTime + engineMs);
  }
}

function parentContext(traceparent: string | undefined): Context {
  const parent = parseTraceparent(traceparent);
  if (parent === null) return ROOT_CONTEXT;
  const { traceId, spanId, flags } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true });
}

/** `chat <model>` for operations that run a model, else the operation. */
function nameOf({ operation, model }: CallEnd): string {
  const name = genAiOperations.get(operation) ?? operation;
  return model === null ? name : `${name} ${model}`;
}

/** Whether the service is at fault; a caller's error does not mark the span as failed. */
function isFault({ code }: CallEnd): boolean {
  return code !== "ok" && errorRow(code).http >= 500;
}

/** Attributes without a value are left out by the tracer. */
function attributesOf(end: CallEnd): Attributes {
  const { operation, model, code, usage, times, route, details } = end;
  const name = genAiOperations.get(operation);
  return {
    [attributes.requestId]: end.requestId,
    [attributes.transport]: end.transport,
    [attributes.inference]: inferenceNames.get(operation),
    [attributes.errorType]: code === "ok" ? undefined : code,
    ...(name === undefined ? {} : { [attributes.operation]: name, [attributes.provider]: genAiProvider }),
    ...(model === null ? {} : { [attributes.requestModel]: model }),
    ...(model === null || code !== "ok" ? {} : { [attributes.responseModel]: route?.fallbackModel ?? model }),
    ...(route === null ? {} : { [attributes.deployment]: route.deployment, [attributes.attempts]: route.attempts }),
    ...(usage === null
      ? {}
      : {
          [attributes.inputTokens]: usage.promptTokens,
          [attributes.outputTokens]: usage.completionTokens,
          [attributes.cachedTokens]: usage.cachedTokens,
        }),
    ...(times.firstTokenMs === null ? {} : { [attributes.timeToFirstChunk]: times.firstTokenMs / 1_000 }),
    ...(details === null ? {} : attributesOfDetails(details)),
  };
}

function attributesOfDetails({ options, choices, isStream, responseId, finishReasons }: CallDetails): Attributes {
  if (options === null) return {};
  const { maxTokens, temperature, topP, stop, seed } = options;
  return {
    [attributes.maxTokens]: maxTokens ?? undefined,
    [attributes.temperature]: temperature,
    [attributes.topP]: topP,
    [attributes.stopSequences]: stop.length === 0 ? undefined : [...stop],
    [attributes.choices]: choices === 1 ? undefined : choices,
    [attributes.seed]: seed === undefined ? undefined : Number(seed),
    [attributes.stream]: isStream,
    [attributes.responseId]: responseId ?? undefined,
    [attributes.finishReasons]: finishReasons.length === 0 ? undefined : [...finishReasons],
  };
}

/**
 * OpenTelemetry's names for the operations that run a model. Its conventions have none for reranking, and allow names of
 * one's own.
 */
export const genAiOperations: ReadonlyMap<Operation, string> = new Map([
  ["create_chat_completion", "chat"],
  ["create_completion", "text_completion"],
  ["create_embeddings", "embeddings"],
  ["rerank", "rerank"],
  ["create_response", "chat"],
  ["create_message", "chat"],
]);

/** `gen_ai.provider.name` of our own engines. */
export const genAiProvider = "unified_inference";

/**
 * Attributes of spans in OpenTelemetry's conventions for generative AI, which still change. Attributes with
 * content are left out (SEC-18).
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
  inference: "uis.operation",
  deployment: "uis.deployment",
  attempts: "uis.attempts",
} as const;
