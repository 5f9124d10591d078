import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, eventsOf, expectError, type Reply, user } from "./api.js";

const failing = (code: string) => ({ id: code, engine: "scripted", scripted: { fail: { code } } });

describe("errors of REST requests", () => {
  let service: RunningService;
  let api: Api;
  let reader: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        limits: { queue_wait: "50ms" },
        models: [
          { id: "test-chat", engine: "scripted", scripted: { text: "Hello." } },
          { id: "test-embed", engine: "scripted", scripted: { dimensions: 8 } },
          { id: "small", engine: "scripted", scripted: { tokens: 100, context_length: 10 } },
          { id: "hangs", engine: "scripted", scripted: { text: "a b c", hang_after_tokens: 0 } },
          {
            id: "one-slot",
            engine: "scripted",
            slots: 1,
            queue_max: 1,
            scripted: { text: "a b", hang_after_tokens: 1 },
          },
          ...[
            "internal_error",
            "upstream_error",
            "server_is_overloaded",
            "upstream_timeout",
            "context_length_exceeded",
          ].map(failing),
        ],
      },
    });
    api = createApi(service);
    reader = createApi({ http: service.http, key: service.readKey });
  });
  afterAll(() => service.close());

  const typeOf = ({ json }: Reply) => json.error.type;

  it("an unknown model is 404 (ERR-5, GEN-13)", async () => {
    const reply = await api.chat({ model: "nowhere" });
    expectError(reply, 404, "model_not_found", "model");
    expect(typeOf(reply)).toBe("invalid_request_error");
  });

  it("a read key cannot generate, and is rejected before its body is read (ERR-12, DEC-7)", async () => {
    for (const path of ["/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings"]) {
      const reply = await reader.send("POST", path, "no json", { "content-type": "text/plain" });
      expectError(reply, 403, "insufficient_permissions");
      expect(typeOf(reply)).toBe("permission_error");
    }
    expect((await reader.get("/v1/models")).status).toBe(200);
  });

  it("a wrong method is 405 with the allowed methods (ERR-13)", async () => {
    const wrong = [
      ["GET", "/v1/chat/completions", "POST"],
      ["PUT", "/v1/embeddings", "POST"],
      ["PUT", "/v1/responses", "POST"],
      ["POST", "/v1/models", "GET, HEAD"],
      ["PATCH", "/v1/models/x", "GET, HEAD"],
      ["POST", "/version", "GET, HEAD"],
      ["POST", "/health", "GET, HEAD"],
      ["OPTIONS", "/v1/models", "GET, HEAD"],
    ] as const;
    for (const [method, path, allowed] of wrong) {
      const reply = await api.send(method, path, undefined, { "content-type": "" });
      expectError(reply, 405, "method_not_allowed");
      expect(reply.headers.get("allow")).toBe(allowed);
    }
  });

  it("an unauthorized caller gets 401 or 403 before 405 (ERR-13)", async () => {
    expectError(
      await api.send("PUT", "/v1/models", undefined, { authorization: "", "content-type": "" }),
      401,
      "invalid_api_key",
    );
    expectError(
      await reader.send("PUT", "/v1/embeddings", undefined, { "content-type": "" }),
      403,
      "insufficient_permissions",
    );
  });

  it("a prompt longer than the context is 400 with both lengths (ERR-9, ERR-26, CHAT-6)", async () => {
    const long = { role: "user", content: "word ".repeat(11).trim() };
    const reply = await api.chat({ model: "small", messages: [long], max_tokens: 5 });
    expectError(reply, 400, "context_length_exceeded", "messages");
    expect(reply.json.error.message).toMatch(/maximum context length is 10 tokens.*11 tokens.*5/);
  });

  it("an answer that is longer than the rest of the context is truncated without an error (CHAT-6)", async () => {
    const fits = { role: "user", content: "word ".repeat(7).trim() };
    const { json } = await api.chat({ model: "small", messages: [fits], max_tokens: 100 });
    expect(json.choices[0].finish_reason).toBe("length");
    expect(json.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 3 });
  });

  it.each([
    ["internal_error", 500, "server_error", "ERR-22"],
    ["upstream_error", 502, "server_error", "ERR-23"],
    ["server_is_overloaded", 503, "service_unavailable_error", "ERR-24, RETRY-1"],
    ["upstream_timeout", 504, "server_error", "ERR-25"],
  ] as const)(
    "an engine that fails with %s before the first token is %i %s, streamed or not (%s, SSE-12, SERR-6)",
    async (code, status, type, _rules) => {
      const ask = [api.chat, api.response];
      for (const reply of await Promise.all(
        [false, true].flatMap((stream) => ask.map((post) => post({ model: code, stream }))),
      )) {
        expectError(reply, status, code);
        expect(typeOf(reply)).toBe(type);
        expect(reply.text).not.toContain("scripted");
        expect(reply.headers.has("retry-after")).toBe(status === 503);
      }
    },
  );

  it("a prompt whose length only the engine rejects is also 400 (ERR-9, RETRY-3)", async () => {
    expectError(await api.chat({ model: "context_length_exceeded" }), 400, "context_length_exceeded", "messages");
  });

  it("an expired client deadline is 504 (ERR-25)", async () => {
    const reply = await api.chat({ model: "hangs" }, { "x-request-timeout": "0.05" });
    expectError(reply, 504, "upstream_timeout");
  });

  it("a timeout that is not a number of seconds is 400, after the credential was checked", async () => {
    expectError(await api.chat({}, { "x-request-timeout": "soon" }), 400, "invalid_value", "x-request-timeout");
    expectError(await api.chat({}, { "x-request-timeout": "soon", authorization: "Bearer x" }), 401, "invalid_api_key");
  });

  it("a request that gets no slot in time is 503 with a retry delay, streamed or not (ERR-24, RETRY-1, SSE-12)", async () => {
    const holder = new AbortController();
    const held = fetch(`${service.api}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "one-slot", messages: [user], stream: true }),
      signal: holder.signal,
    });
    const slot = async () => (await service.debugState()).models.find(({ id }) => id === "one-slot");
    await eventually(async () => (await slot())?.busy === 1);
    for (const stream of [false, true]) {
      const reply = await api.chat({ model: "one-slot", stream });
      expectError(reply, 503, "server_is_overloaded");
      expect(reply.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
      expect(Number(reply.headers.get("retry-after-ms"))).toBeGreaterThanOrEqual(1);
    }
    await held;
    holder.abort();
    await eventually(async () => (await slot())?.busy === 0);
  });

  it("every rejection is an error object, none is 422 and none is 200 (ERR-1, ERR-18, ERR-30, DEC-2)", async () => {
    const replies = await Promise.all([
      api.get("/v1/nothing"),
      api.get("/v1/chat/completions"),
      api.chat({}, { authorization: "Bearer x" }),
      api.chat({}, { "content-type": "text/plain" }),
      api.chat({ temperature: 5 }),
      api.chat({ model: "nowhere" }),
      api.chat({ model: "internal_error" }),
      reader.chat(),
    ]);
    for (const reply of replies) {
      expect(reply.status).toBeGreaterThanOrEqual(400);
      expect(reply.status).not.toBe(422);
      expectError(reply, reply.status, reply.json.error.code, reply.json.error.param);
      expect(reply.json.error.code).not.toBe("");
      expect(reply.headers.get("content-type")).toBe("application/json");
    }
  });

  it("no rejection contains a key or a stack trace (ERR-2)", async () => {
    const replies = [
      await api.chat({ model: service.key }, { authorization: `Bearer ${service.key}x` }),
      await api.chat({ model: "internal_error" }),
    ];
    for (const { text } of replies) {
      expect(text).not.toContain(service.key.slice(0, 20));
      expect(text).not.toMatch(/\.[jt]s:\d+|node:internal/);
    }
  });

  it("the words by which clients detect rate limits, overlong prompts and billing occur in those errors only (ERR-3, ERR-4)", async () => {
    const replies = await Promise.all([
      api.get("/v1/nothing"),
      api.chat({}, { authorization: "Bearer x" }),
      reader.chat(),
      api.chat({ model: "nowhere" }),
      api.chat({ n: 100 }),
      ...["internal_error", "upstream_error", "server_is_overloaded", "upstream_timeout"].map((model) =>
        api.chat({ model }),
      ),
    ]);
    for (const { json } of replies) {
      expect(json.error.message).not.toMatch(
        /rate[\s_-]?limit|maximum context length|billing|quota|credit|will reset at|\b429\b/i,
      );
    }
  });

  it("a permanent error has a status that SDKs do not retry, and no retry delay (RETRY-1, RETRY-3)", async () => {
    for (const fields of [
      { temperature: 5 },
      { model: "nowhere" },
      { model: "context_length_exceeded" },
      { tools: [{ type: "custom" }] },
    ]) {
      const { status, headers } = await api.chat(fields);
      expect([400, 404]).toContain(status);
      expect(headers.get("retry-after")).toBeNull();
      expect(headers.get("retry-after-ms")).toBeNull();
    }
  });

  it("the SDK's retry count and the client's request id are logged, but the service uses its own id (RETRY-5, HDR-5)", async () => {
    const reply = await api.chat({}, { "x-stainless-retry-count": "2", "x-client-request-id": "mine-1" });
    const requestId = reply.headers.get("x-request-id");
    expect(requestId).toMatch(/^req_[0-9a-f]{32}$/);
    await eventually(() =>
      service.logs.some((line) => line["request_id"] === requestId && line["outcome"] !== undefined),
    );
    expect(service.logs).toContainEqual(
      expect.objectContaining({ request_id: requestId, retry_count: "2", client_request_id: "mine-1" }),
    );
    const odd = await api.chat({}, { "x-client-request-id": "x".repeat(513), "x-stainless-retry-count": "many" });
    const oddId = odd.headers.get("x-request-id");
    await eventually(() => service.logs.some((line) => line["request_id"] === oddId && line["outcome"] !== undefined));
    const [line] = service.logs.filter((entry) => entry["request_id"] === oddId);
    expect(line).not.toHaveProperty("client_request_id");
    expect(line).not.toHaveProperty("retry_count");
  });

  it("a rejection before the body has the same request id in its header and in the log (HDR-1)", async () => {
    const reply = await api.chat({}, { authorization: "Bearer x" });
    const requestId = reply.headers.get("x-request-id");
    expect(service.logs.some((line) => line["request_id"] === requestId)).toBe(true);
  });

  it("a stream that exceeds the client's deadline ends with an error event (SERR-5, STRM-5)", async () => {
    const { status, text } = await api.chat({ model: "one-slot", stream: true }, { "x-request-timeout": "0.2" });
    expect(status).toBe(200);
    const events = eventsOf(text);
    expect(events.at(-1)).toEqual({
      error: { message: expect.any(String), type: "server_error", param: null, code: "upstream_timeout" },
    });
    expect(text).not.toContain("[DONE]");
    expect(text.endsWith("\n\n")).toBe(true);
  });
});
