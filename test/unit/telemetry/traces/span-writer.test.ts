import { type HrTime, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { beforeEach, describe, expect, it } from "vitest";
import { CallDetails } from "../../../../src/domain/call/observer.js";
import { SpanWriter } from "../../../../src/telemetry/traces/span-writer.js";
import { chatEnd, plainEnd } from "../../../support/call-ends.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

let exporter: InMemorySpanExporter;
let writer: SpanWriter;

beforeEach(() => {
  exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  writer = new SpanWriter(provider.getTracer("test"), () => ({ host: "0.0.0.0", port: 8080 }));
});

const msOf = ([seconds, nanos]: HrTime): number => seconds * 1_000 + nanos / 1e6;

function spans() {
  const [engine, call] = exporter.getFinishedSpans();
  if (engine === undefined || call === undefined) throw new Error("there are two spans");
  return { engine, call };
}

describe("spans of a call", () => {
  it("are one span for the call, in the caller's trace, and a child span for the engine, with their times", () => {
    expect(writer.trace(chatEnd({ traceparent: `00-${traceId}-${spanId}-01` }))).toBe(traceId);
    const { engine, call } = spans();
    expect(call).toMatchObject({ name: "chat m", kind: SpanKind.SERVER });
    expect(call.parentSpanContext).toMatchObject({ traceId, spanId, isRemote: true });
    expect(engine).toMatchObject({ name: "engine m", kind: SpanKind.INTERNAL });
    expect(engine.parentSpanContext?.spanId).toBe(call.spanContext().spanId);
    const sinceMs = 1_700_000_000_000;
    expect([call.startTime, call.endTime].map((time) => msOf(time) - sinceMs)).toEqual([0, 125]);
    expect([engine.startTime, engine.endTime].map((time) => msOf(time) - sinceMs)).toEqual([10, 120]);
  });

  it("have options and usage under OpenTelemetry's names", () => {
    const details = new CallDetails();
    details.asked({ maxTokens: 20, temperature: 0.5, topP: 1, stop: ["END"], seed: 7n }, 2, "chatcmpl-1");
    details.streams();
    details.finishReasons.push("stop", "length");
    writer.trace(chatEnd({ details }));
    expect(spans().call.attributes).toEqual({
      "uis.request_id": "req_0",
      "uis.transport": "openai",
      "uis.operation": "chat",
      "uis.deployment": "m/0",
      "uis.attempts": 1,
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "unified_inference",
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 20,
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.top_p": 1,
      "gen_ai.request.stop_sequences": ["END"],
      "gen_ai.request.choice.count": 2,
      "gen_ai.request.seed": 7,
      "gen_ai.request.stream": true,
      "gen_ai.response.id": "chatcmpl-1",
      "gen_ai.response.model": "m",
      "gen_ai.response.finish_reasons": ["stop", "length"],
      "gen_ai.response.time_to_first_chunk": 0.03,
      "gen_ai.usage.input_tokens": 7,
      "gen_ai.usage.output_tokens": 10,
      "gen_ai.usage.cache_read.input_tokens": 4,
      "server.address": "0.0.0.0",
      "server.port": 8080,
    });
  });

  it("name a fallback model as the model of the response", () => {
    writer.trace(chatEnd({ route: { deployment: "gpu/n", attempts: 3, fallbackModel: "n" } }));
    expect(spans().call.attributes).toMatchObject({
      "gen_ai.request.model": "m",
      "gen_ai.response.model": "n",
      "uis.deployment": "gpu/n",
      "uis.attempts": 3,
    });
  });

  it("are a single span for a rejected call, with error status only for a fault of the service", () => {
    writer.trace(plainEnd({ model: null, code: "invalid_api_key" }));
    writer.trace(plainEnd({ code: "internal_error" }));
    writer.trace(plainEnd({ model: null, operation: "list_models" }));
    expect(
      exporter.getFinishedSpans().map(({ name, status, attributes }) => [name, status.code, attributes["error.type"]]),
    ).toEqual([
      ["chat", SpanStatusCode.UNSET, "invalid_api_key"],
      ["chat m", SpanStatusCode.ERROR, "internal_error"],
      ["list_models", SpanStatusCode.UNSET, undefined],
    ]);
  });

  it("have attributes of generative AI only for operations that run a model", () => {
    writer.trace(plainEnd({ model: null, operation: "create_api_key" }));
    const [span] = exporter.getFinishedSpans();
    expect(span?.name).toBe("create_api_key");
    expect(Object.keys(span?.attributes ?? {}).filter((name) => name.startsWith("gen_ai."))).toEqual([]);
  });

  it("are not recorded if the caller's trace is not recorded, but its trace id is returned", () => {
    expect(writer.trace(chatEnd({ traceparent: `00-${traceId}-${spanId}-00` }))).toBe(traceId);
    expect(exporter.getFinishedSpans()).toEqual([]);
  });
});
