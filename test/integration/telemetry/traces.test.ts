import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { chatOf, createChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay, wayNames } from "../../conformance/rpc/ways.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { startTraceReceiver, type TraceReceiver } from "../../support/trace-receiver.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${spanId}-01`;
/** OTLP's numbers for span kinds. */
const [internal, server] = [1, 2];

let receiver: TraceReceiver;
let service: RunningService | null = null;

beforeEach(async () => {
  receiver = await startTraceReceiver();
});

afterEach(async () => {
  await service?.close();
  service = null;
  await receiver.close();
});

async function start(env: Record<string, string>): Promise<RunningService> {
  service = await startService({
    env,
    config: { models: [{ id: "m", engine: "scripted", scripted: { text: "One two three answer-CANARY." } }] },
  });
  return service;
}

/** Stops the service, which exports the remaining spans. */
async function stop(): Promise<void> {
  await service?.close();
  service = null;
}

async function chat({ api, key }: RunningService, fields: object = {}, headers: object = {}): Promise<number> {
  const response = await fetch(`${api}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "prompt-CANARY" }], ...fields }),
  });
  await response.text();
  return response.status;
}

describe("traces", () => {
  it("reach a collector as a span for the call in the caller's trace, and a child span for the engine", async () => {
    const running = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
      OTEL_EXPORTER_OTLP_HEADERS: "x-team=inference",
      OTEL_SERVICE_NAME: "under-test",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=ci",
    });
    expect(await chat(running, { stream: true, max_tokens: 3, temperature: 0.5 }, { traceparent })).toBe(200);
    expect(running.logs.find(({ msg }) => msg === "request")).toMatchObject({ trace_id: traceId });
    await stop();
    const [engine, call] = [...receiver.spans].sort((a, b) => a.kind - b.kind);
    expect(call).toMatchObject({ name: "chat m", kind: server, traceId, parentSpanId: spanId });
    expect(engine).toMatchObject({ name: "engine m", kind: internal, traceId, parentSpanId: call?.spanId });
    expect(call?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "unified_inference",
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 3,
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.stream": true,
      "gen_ai.response.finish_reasons": ["length"],
      "gen_ai.usage.output_tokens": 3,
      "uis.transport": "openai",
      "uis.request_id": expect.stringMatching(/^req_/) as string,
    });
    expect(call?.attributes["gen_ai.response.id"]).toMatch(/^chatcmpl-/);
    expect(receiver.headers).toMatchObject({ "x-team": "inference" });
    expect(receiver.resource).toMatchObject({ "service.name": "under-test", "deployment.environment.name": "ci" });
  });

  it("continue the caller's span on every protocol", async () => {
    const running = await start({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.endpoint}/v1/traces` });
    for (const name of wayNames) {
      const way = openWay(name, running);
      expect((await way.call(createChatCompletion, chatOf("m"), { headers: { traceparent } })).failure).toBeNull();
      way.close();
    }
    for (const [path, body] of [
      ["responses", { input: "Hi" }],
      ["messages", { messages: [{ role: "user", content: "Hi" }], max_tokens: 4 }],
    ] as const) {
      const headers = { authorization: `Bearer ${running.key}`, "content-type": "application/json", traceparent };
      const init = { method: "POST", headers, body: JSON.stringify({ model: "m", ...body }) };
      expect((await fetch(`${running.api}/${path}`, init)).status).toBe(200);
    }
    await stop();
    const calls = receiver.spans.filter(({ kind }) => kind === server);
    const transports = calls.map((span) => span.attributes["uis.transport"]);
    expect(transports).toEqual(["grpc", "connect", "connect", "grpc_web", "openai", "anthropic"]);
    for (const span of calls) expect(span).toMatchObject({ traceId, parentSpanId: spanId });
  });

  it("begin with the call if the caller sends no trace, and the log has their ids", async () => {
    const running = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint });
    expect(await chat(running)).toBe(200);
    expect(await chat(running, {}, { authorization: "Bearer sk-uis-wrong" })).toBe(401);
    const ids = running.logs
      .filter(({ msg }) => msg === "request" || msg === "refused")
      .map((line) => line["trace_id"]);
    await stop();
    const calls = receiver.spans.filter(({ kind }) => kind === server);
    expect(calls.map((span) => span.traceId)).toEqual(ids);
    expect(calls.map((span) => span.attributes["error.type"])).toEqual([undefined, "invalid_api_key"]);
  });

  it("contain no key, prompt or answer (SEC-18)", async () => {
    const running = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
      UIS_BOOTSTRAP_API_KEY: "bootstrap-CANARY-key",
    });
    expect(await chat(running, { user: "user-CANARY" }, { authorization: "Bearer bootstrap-CANARY-key" })).toBe(200);
    expect(await chat(running, { temperature: "prompt-CANARY" })).toBe(400);
    expect(await chat(running, { model: "model-CANARY" })).toBe(404);
    expect(await chat(running, {}, { authorization: "Bearer wrong-CANARY" })).toBe(401);
    await stop();
    expect(receiver.spans.length).toBeGreaterThan(4);
    expect(receiver.bodies.join()).not.toContain("CANARY");
  });

  it("delay no request and no stop when the export fails, and the failure is logged once", async () => {
    await receiver.close();
    const running = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint });
    const statuses = await Promise.all(Array.from({ length: 50 }, () => chat(running)));
    expect(new Set(statuses)).toEqual(new Set([200]));
    const sinceMs = performance.now();
    const { logs } = running;
    await stop();
    expect(performance.now() - sinceMs).toBeLessThan(15_000);
    expect(logs.filter(({ msg }) => String(msg).startsWith("trace export failed")).length).toBeLessThanOrEqual(1);
    receiver = await startTraceReceiver();
  });

  it("are off without an endpoint, and the log has the trace id of the caller, if it sends one", async () => {
    const running = await start({ OTEL_SERVICE_NAME: "under-test" });
    expect(await chat(running, {}, { traceparent })).toBe(200);
    expect(await chat(running)).toBe(200);
    const lines = running.logs.filter(({ msg }) => msg === "request");
    expect(lines.map((line) => line["trace_id"])).toEqual([traceId, undefined]);
    await stop();
    expect(receiver.bodies).toEqual([]);
  });
});
