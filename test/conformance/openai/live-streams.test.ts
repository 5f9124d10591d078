import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { connectRaw, parseAnswer, postText, type RawConnection } from "../../support/raw-connection.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { createApi, eventsOf, user } from "./api.js";

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello." } },
  { id: "paced", engine: "scripted", scripted: { text: "a b c d e f g h", token_delay_ms: 20 } },
  { id: "hangs", engine: "scripted", scripted: { text: "a b c", hang_after_tokens: 1 } },
  { id: "silent", engine: "scripted", scripted: { text: "a b c", hang_after_tokens: 0 } },
  { id: "late", engine: "scripted", scripted: { text: "a b", first_token_delay_ms: 600 } },
  { id: "one-slot", engine: "scripted", slots: 1, scripted: { text: "a b c", hang_after_tokens: 1 } },
  { id: "endless", engine: "scripted", scripted: { text: "x".repeat(8 * 1024), tokens: 100_000 } },
];

const body = (model: string, fields: object = {}) =>
  JSON.stringify({ model, messages: [user], stream: true, ...fields });

async function streamFrom(service: RunningService, model: string, fields: object = {}): Promise<RawConnection> {
  const connection = await connectRaw(service.http);
  connection.send(
    postText("/v1/chat/completions", `Bearer ${service.key}`, body(model, fields), ["Connection: close"]),
  );
  return connection;
}

/** Starts a streamed response with the same answer as a chat. */
async function responseFrom(service: RunningService, model: string): Promise<RawConnection> {
  const connection = await connectRaw(service.http);
  const sent = JSON.stringify({ model, input: "Hi", stream: true });
  connection.send(postText("/v1/responses", `Bearer ${service.key}`, sent, ["Connection: close"]));
  return connection;
}

async function expectIdle(service: RunningService): Promise<void> {
  await eventually(async () => {
    const { requests, models: all, streams } = await service.debugState();
    return requests.running === 0 && requests.waiting === 0 && streams === 0 && all.every(({ busy }) => busy === 0);
  }, "nothing of the requests is left");
}

describe("streams while they run", () => {
  let service: RunningService;

  beforeAll(async () => {
    service = await startService({
      config: { models, limits: { sse_keep_alive: "100ms", commit: "100ms", stall: "300ms", drain: "300ms" } },
    });
  });
  afterAll(() => service.close());

  it("send headers and each event as soon as they exist (SSE-10, SSE-13)", async () => {
    const connection = await streamFrom(service, "paced");
    await connection.until('"content":"a"');
    expect(connection.received).not.toContain('" c"');
    await connection.until('" c"');
    expect(connection.received).not.toContain("[DONE]");
    expect(await connection.closed()).toContain("data: [DONE]\n\n");
  });

  it("send the status of a silent engine's stream at the commit time, then only comments (SSE-8, SSE-13, CONN-2)", async () => {
    const connection = await streamFrom(service, "silent");
    await connection.until((received) => received.split(": keep-alive\n").length > 2);
    const { status, headers } = parseAnswer(connection.received);
    expect(status).toBe(200);
    expect(headers["content-type"]).toContain("text/event-stream");
    expect(connection.received).not.toContain("data:");
    connection.destroy();
    await expectIdle(service);
  });

  it("send the first events of a silent engine's response at the commit time (SSE-13, RSP-7)", async () => {
    const connection = await responseFrom(service, "silent");
    await connection.until((received) => received.split(": keep-alive\n").length > 2);
    expect(connection.received.match(/^event: .*$/gm)).toEqual([
      "event: response.created",
      "event: response.in_progress",
    ]);
    connection.destroy();
    await expectIdle(service);
  });

  it("send comments between events, with one line feed, which do not change the stream (SSE-8)", async () => {
    const connection = await streamFrom(service, "late");
    const { body: text } = parseAnswer(await connection.closed());
    expect(text).toMatch(/^(: keep-alive\n)+data: /);
    expect(text.replaceAll(": keep-alive\n", "")).toMatch(/^(data: [^\n]+\n\n)+$/);
    expect(eventsOf(text).at(-1)).toBe("[DONE]");
  });

  it("send nothing while the request waits for a slot (SSE-13)", async () => {
    const holder = await streamFrom(service, "one-slot");
    await holder.until('"content":"a"');
    const waiting = await streamFrom(service, "one-slot");
    await eventually(async () => (await service.debugState()).requests.waiting === 1);
    // Longer than the commit and keep-alive times together.
    await holder.until((received) => received.split(": keep-alive\n").length > 4);
    expect(waiting.received).toBe("");
    holder.destroy();
    await waiting.until('"content":"a"');
    waiting.destroy();
    await expectIdle(service);
  });

  it.each(["hangs", "silent", "late"])(
    "stop the engine and free its slot if the client of the model %s disconnects (SSE-14, RETRY-6)",
    async (model) => {
      const connection = await streamFrom(service, model);
      await eventually(async () => ((await service.debugState()).models.find(({ id }) => id === model)?.busy ?? 0) > 0);
      connection.destroy();
      await expectIdle(service);
    },
  );

  it("are charged for the output that was produced before a disconnect (SSE-14)", async () => {
    const connection = await streamFrom(service, "hangs");
    await connection.until('"content":"a"');
    const requestId = parseAnswer(connection.received).headers["x-request-id"];
    connection.destroy();
    const line = () =>
      service.logs.find((entry) => entry["request_id"] === requestId && entry["outcome"] !== undefined);
    await eventually(() => line() !== undefined);
    expect(line()).toMatchObject({ outcome: "client_left", prompt_tokens: 1, completion_tokens: 1 });
  });

  it("are ended after the stall time if their reader has stalled, and their slot is freed (REL-1)", async () => {
    const connection = await streamFrom(service, "endless");
    connection.pause();
    await eventually(
      async () => ((await service.debugState()).models.find(({ id }) => id === "endless")?.busy ?? 0) > 0,
    );
    await expectIdle(service);
    expect(service.logs.some((line) => line["outcome"] === "stalled")).toBe(true);
    connection.destroy();
  });

  it("end with the reason if their key is revoked (SERR-1, SERR-4)", async () => {
    const { apiKeys } = service.service.parts;
    const { record, secret } = await apiKeys.create({ name: "short-lived", scope: "read_write" });
    const connection = await streamFrom({ ...service, key: secret }, "hangs");
    await connection.until('"content":"a"');
    await apiKeys.revoke(record.id);
    const { body: text } = parseAnswer(await connection.closed());
    expect(eventsOf(text).at(-1)).toMatchObject({ error: { type: "authentication_error", code: "invalid_api_key" } });
    expect(text).not.toContain("[DONE]");
    await expectIdle(service);
  });
});

describe("configured keep-alives", () => {
  it.each(["chunk", "off"])("have the form of the setting %s (SSE-9)", async (keepAlive) => {
    const service = await startService({
      config: { models, sse: { keep_alive: keepAlive }, limits: { sse_keep_alive: "50ms" } },
    });
    const text = (
      await createApi(service).post("/v1/chat/completions", JSON.parse(body("paced")), { "x-request-timeout": "5" })
    ).text;
    const connection = await streamFrom(service, "hangs");
    await connection.until('"content":"a"');
    const empty = '"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}]';
    if (keepAlive === "chunk") await connection.until(empty);
    else expect(connection.received).not.toContain(empty);
    expect(connection.received + text).not.toContain(": keep-alive");
    connection.destroy();
    const response = await responseFrom(service, "hangs");
    await response.until('"delta":"a"');
    if (keepAlive === "chunk") await response.until('"delta":"","logprobs":[]}');
    response.destroy();
    await service.close();
  });
});

describe("streams of a service that stops", () => {
  it("finish if they can in time, and end with server_shutting_down otherwise (SERR-7, SERR-5, RSP-10)", async () => {
    const service = await startService({ config: { models, limits: { drain: "600ms" } } });
    const [hanging, response, finishing] = await Promise.all([
      streamFrom(service, "hangs"),
      responseFrom(service, "hangs"),
      streamFrom(service, "paced"),
    ]);
    await Promise.all([
      hanging.until('"content":"a"'),
      response.until('"delta":"a"'),
      finishing.until('"content":"a"'),
    ]);
    const stopped = service.close();
    const cut = parseAnswer(await hanging.closed()).body;
    expect(eventsOf(cut).at(-1)).toMatchObject({
      error: { type: "service_unavailable_error", code: "server_shutting_down" },
    });
    expect(cut).not.toContain("[DONE]");
    expect(eventsOf(parseAnswer(await response.closed()).body).at(-1)).toMatchObject({
      ...{ type: "error", code: "server_shutting_down" },
      error: { type: "service_unavailable_error" },
    });
    expect(eventsOf(parseAnswer(await finishing.closed()).body).at(-1)).toBe("[DONE]");
    await stopped;
  });
});
