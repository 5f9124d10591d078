import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectRaw } from "../../support/raw-connection.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, user } from "../openai/api.js";

/** Texts that would reveal the software, its paths or its addresses. */
const tells = [
  /node\.?js|connect-es|express|fastify/i,
  /\bat .+:\d+:\d+/,
  /\/(src|dist|node_modules|home|root|tmp)\//,
  /127\.0\.0\.1:\d+/,
];
const tellingHeaders = ["server", "x-powered-by", "via"];

describe("information in responses", () => {
  let service: RunningService;
  let api: Api;
  beforeAll(async () => {
    const broken = (code: string) => ({ id: code, engine: "scripted", scripted: { fail: { after_tokens: 0, code } } });
    const models = [
      "internal_error",
      "upstream_error",
      "server_is_overloaded",
      "upstream_timeout",
      "context_length_exceeded",
    ];
    service = await startService({ config: { models: models.map(broken) } });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it("includes no software name, stack trace, path or address in any error (SEC-32, ERR-2)", async () => {
    const answers = [
      ...(await Promise.all(
        [
          "internal_error",
          "upstream_error",
          "server_is_overloaded",
          "upstream_timeout",
          "context_length_exceeded",
          "unknown",
        ].map((model) => api.chat({ model, messages: [user] })),
      )),
      await api.send("POST", "/v1/chat/completions", "{"),
      await api.post("/v1/nowhere", {}),
    ];
    for (const { status, headers, text } of answers) {
      expect(status).toBeGreaterThanOrEqual(400);
      for (const tell of tells) expect(text).not.toMatch(tell);
      for (const name of tellingHeaders) expect(headers.get(name)).toBeNull();
    }
  });

  it("includes no software name, stack trace, path or address for malformed HTTP (SEC-32)", async () => {
    const connection = await connectRaw(service.http);
    connection.send("GARBAGE\r\n\r\n");
    const answer = await connection.closed();
    for (const tell of tells) expect(answer).not.toMatch(tell);
  });
});

describe("credentials in wrong places of a request", () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.close());

  it.each([
    ["x-api-key", (key: string) => ({ headers: { "x-api-key": key }, query: "" })],
    ["api-key", (key: string) => ({ headers: { "api-key": key }, query: "" })],
    [
      "a cookie",
      (key: string) => ({ headers: { cookie: `uis_session=${key}; authorization=Bearer ${key}` }, query: "" }),
    ],
    ["Basic", (key: string) => ({ headers: { authorization: `Basic ${key}` }, query: "" })],
    ["the query", (key: string) => ({ headers: {}, query: `?api_key=${key}&key=${key}` })],
  ])("are ignored: a key in %s (KEY-6, ERR-11, DEC-12)", async (_, place) => {
    const { headers, query } = place(service.key);
    const response = await fetch(`${service.api}/models${query}`, { headers: headers as Record<string, string> });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: { type: "authentication_error", code: "invalid_api_key" } });
  });
});
