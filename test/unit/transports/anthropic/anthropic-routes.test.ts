import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../../src/contract/errors.js";
import { defaultLimits, type ServiceLimits } from "../../../../src/contract/limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";
import { createAnthropicRoutes } from "../../../../src/transports/anthropic/routes.js";
import { createResponseWatch } from "../../../../src/transports/http/answer.js";
import { BodyBudget, createUploadWatch } from "../../../../src/transports/http/body.js";
import { createHttpListener, type HttpListener } from "../../../../src/transports/http/listener.js";
import { type Route, RouteTable } from "../../../../src/transports/http/routes.js";
import { HandCore, silentUntilAborted, textChunk } from "../../../support/hand-core.js";
import { connectRaw, parseAnswer } from "../../../support/raw-connection.js";
import { silentLog } from "../../../support/silent-log.js";

const clock = createSystemClock();
const ids = createRandomIds();
const request = { model: "m", max_tokens: 10, messages: [{ role: "user", content: "Hi" }] };
const body = JSON.stringify(request);

/** Replaces OpenAI's route of a path that both APIs have. */
const other = (path: string): Route => ({ path, handle: (_req, res) => res.writeHead(200).end('{"object":"list"}') });

async function open(core: HandCore, changes: Partial<ServiceLimits> = {}, keepAlive: "comment" | "off" = "comment") {
  const limits = { ...defaultLimits, ...changes };
  const watch = createResponseWatch(limits, () => clock.monotonic());
  const uploads = createUploadWatch(limits, () => clock.monotonic());
  const bodies = new BodyBudget(limits);
  const anthropic = createAnthropicRoutes({
    core,
    limits,
    clock,
    ids,
    log: silentLog,
    bodies,
    uploads,
    watch,
    keepAlive,
  });
  const routes = new RouteTable([...anthropic, other("/v1/models"), other("/v1/models/*")], (_req, res) =>
    res.writeHead(404).end(),
  );
  const errorToJson = ({ code }: ServiceError) => ({ code });
  const server = { corsOrigins: [], allowedHosts: [], tls: null, connectionLimit: null, ids, log: silentLog };
  const listener = createHttpListener({ limits, routes, errorToJson, ...server });
  return { listener, base: `http://127.0.0.1:${await listener.listen("127.0.0.1", 0)}` };
}

describe("the Messages API", () => {
  let core: HandCore;
  let listener: HttpListener;
  let base: string;

  beforeEach(async () => {
    core = new HandCore();
    ({ listener, base } = await open(core));
  });
  afterEach(() => listener.close());

  async function send(
    headers: Record<string, string> = {},
    sent: string | null = body,
    path = "/v1/messages",
    method = "POST",
  ) {
    const all = { "x-api-key": "good", "content-type": "application/json", ...headers };
    const response = await fetch(base + path, { method, headers: all, body: sent });
    const text = await response.text();
    // biome-ignore lint/suspicious/noExplicitAny: a client sees untyped JSON
    const json: any = text.startsWith("{") ? JSON.parse(text) : null;
    return { status: response.status, headers: response.headers, text, json };
  }

  /** Expects an error in Anthropic's form, with the request's id in body and headers. */
  async function expectError(answer: ReturnType<typeof send>, status: number, type: string): Promise<string> {
    const reply = await answer;
    expect([reply.status, reply.text]).toEqual([status, reply.text]);
    expect(reply.json).toEqual({
      type: "error",
      error: { type, message: expect.any(String) },
      request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/),
    });
    expect(reply.headers.get("request-id")).toBe(reply.json.request_id);
    expect(reply.headers.get("x-request-id")).toBe(reply.json.request_id);
    return reply.json.error.message;
  }

  it("takes the key from x-api-key or authorization; authorization takes precedence (ANT-1)", async () => {
    expect((await send()).status).toBe(200);
    expect(core.last.caller).toMatchObject({ authorization: "Bearer good", transport: "anthropic" });
    expect(core.last.operation).toBe("create_message");
    await send({ authorization: "Bearer better" });
    expect(core.last.caller.authorization).toBe("Bearer better");
  });

  it("ignores ?beta=true, anthropic-version and anthropic-beta (ANT-1)", async () => {
    const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "context-management-2025-06-27" };
    const { status, json } = await send(headers, body, "/v1/messages?beta=true");
    expect([status, json.content]).toEqual([200, [{ type: "text", text: "Hello." }]]);
  });

  it("answers with the request's id and the deployment in headers (ANT-5)", async () => {
    const { headers } = await send();
    expect(headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    expect(headers.get("x-uis-deployment")).toBe("m/0");
    expect(headers.get("openai-version")).toBeNull();
  });

  it("streams events (ANT-2)", async () => {
    const { headers, text } = await send({}, JSON.stringify({ ...request, stream: true }));
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(text.match(/^event: \w+/gm)?.map((line) => line.slice("event: ".length))).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_delta",
      "message_stop",
    ]);
    expect(text).toContain('"id":"chatcmpl-1"');
    expect(text).toContain('"usage":{"input_tokens":2,');
  });

  it.each<[code: ErrorCode, status: number, type: string]>([
    ["invalid_value", 400, "invalid_request_error"],
    ["context_length_exceeded", 400, "invalid_request_error"],
    ["invalid_api_key", 401, "authentication_error"],
    ["insufficient_permissions", 403, "permission_error"],
    ["model_not_found", 404, "not_found_error"],
    ["request_timeout", 408, "invalid_request_error"],
    ["rate_limit_exceeded", 429, "rate_limit_error"],
    ["insufficient_quota", 429, "rate_limit_error"],
    ["internal_error", 500, "api_error"],
    ["upstream_error", 502, "api_error"],
    ["model_loading", 503, "api_error"],
    ["server_shutting_down", 503, "api_error"],
    ["upstream_timeout", 504, "api_error"],
    ["server_is_overloaded", 529, "overloaded_error"],
    ["upstream_rate_limited", 529, "overloaded_error"],
  ])("%s is %d %s (ANT-5)", async (code, status, type) => {
    core.chat = () => {
      throw new ServiceError(code, "It failed.");
    };
    expect(await expectError(send(), status, type)).toBe("It failed.");
    core.beforeOpen = () => {
      throw new ServiceError(code, "It failed.");
    };
    await expectError(send(), status, type);
    await expectError(send({}, body, "/v1/messages/count_tokens"), status, type);
  });

  it("a request with `thread` is refused with the code that makes SDKs send the whole conversation (ANT-5)", async () => {
    const { status, json } = await send({}, JSON.stringify({ ...request, thread: { type: "create" } }));
    expect([status, json.error.details]).toEqual([400, { error_code: "thread_unsupported_request" }]);
  });

  it("an answer for overload has a retry-after header (ANT-5)", async () => {
    core.beforeOpen = () => {
      throw new ServiceError("server_is_overloaded", "No slot.", { retryAfterMs: 2_000 });
    };
    expect((await send()).headers.get("retry-after")).toBe("2");
  });

  it("the rate limits are sent in Anthropic's headers, with the time of the reset (ANT-5)", async () => {
    const owner = { kind: "key", id: "key_1" } as const;
    const limits = {
      requests: { owner, limit: 10, remaining: 0, resetMs: 60_000 },
      tokens: { owner, limit: 1_000, remaining: 7, resetMs: 30_000 },
    };
    core.beforeOpen = () => {
      throw new ServiceError("rate_limit_exceeded", "Too many.", { limits, retryAfterMs: 1_500 });
    };
    const beforeMs = Date.now();
    const { headers } = await send();
    const ofLimits = Object.fromEntries([...headers].filter(([name]) => name.startsWith("anthropic-ratelimit-")));
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const tokens = (kind: string) => ({
      [`anthropic-ratelimit-${kind}-limit`]: "1000",
      [`anthropic-ratelimit-${kind}-remaining`]: "7",
      [`anthropic-ratelimit-${kind}-reset`]: time,
    });
    expect(ofLimits).toEqual({
      "anthropic-ratelimit-requests-limit": "10",
      "anthropic-ratelimit-requests-remaining": "0",
      "anthropic-ratelimit-requests-reset": time,
      ...tokens("tokens"),
      ...tokens("input-tokens"),
      ...tokens("output-tokens"),
    });
    const resetMs = Date.parse(headers.get("anthropic-ratelimit-requests-reset") ?? "");
    expect(resetMs).toBeGreaterThanOrEqual(beforeMs + 60_000);
    expect(resetMs).toBeLessThanOrEqual(Date.now() + 60_001);
    expect(headers.get("retry-after")).toBe("2");
    expect(headers.get("x-ratelimit-limit-requests")).toBe("10");
  });

  it("errors that occur before the body is read have Anthropic's form (ANT-5)", async () => {
    await listener.close();
    ({ listener, base } = await open(core, { bodyBytesMax: 1_000 }));
    await expectError(send({}, "x".repeat(1_001)), 413, "request_too_large");
    await expectError(send({ "content-type": "text/plain" }), 415, "invalid_request_error");
    await expectError(send({}, "{"), 400, "invalid_request_error");
    await expectError(send({ "x-request-timeout": "soon" }), 400, "invalid_request_error");
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`x-${i}`, "a"]));
    await expectError(send(many), 431, "invalid_request_error");
    const refused = await send({}, null, "/v1/messages", "GET");
    expect(refused.headers.get("allow")).toBe("POST");
    await expectError(Promise.resolve(refused), 405, "invalid_request_error");
  });

  it("a request with two x-api-key headers is refused (SEC-4, ANT-5)", async () => {
    const connection = await connectRaw(base);
    const head = ["POST /v1/messages HTTP/1.1", "Host: a", "X-Api-Key: good", "X-Api-Key: better", "Content-Length: 0"];
    connection.send(`${head.join("\r\n")}\r\n\r\n`);
    const answer = parseAnswer(await connection.closed());
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
    expect(core.calls).toEqual([]);
  });

  it("a failure in the middle of a stream is sent as one error event, and the stream ends (ANT-5)", async () => {
    core.chunks = async function* () {
      yield textChunk("Hel");
      throw new ServiceError("server_is_overloaded", "No slot.");
    };
    const { text } = await send({}, JSON.stringify({ ...request, stream: true }));
    const [last, rest] = text.split("\n\n").slice(-2);
    expect(rest).toBe("");
    const [, data = ""] = /^event: error\ndata: (.*)$/.exec(last ?? "") ?? [];
    expect(JSON.parse(data)).toEqual({
      type: "error",
      error: { type: "overloaded_error", message: "No slot." },
      request_id: core.last.caller.requestId,
    });
  });

  it("a silent stream gets pings after message_start unless sse.keep_alive is off (ANT-2, ANT-3)", async () => {
    await listener.close();
    ({ listener, base } = await open(core, { sseKeepAliveMs: 30 }));
    core.chunks = (_, ctx) => silentUntilAborted(ctx.signal);
    const connection = await connectRaw(base);
    const sent = JSON.stringify({ ...request, stream: true });
    const head = ["POST /v1/messages HTTP/1.1", "Host: a", "X-Api-Key: good", "Content-Type: application/json"];
    connection.send(`${head.join("\r\n")}\r\nContent-Length: ${sent.length}\r\n\r\n${sent}`);
    const received = await connection.until(/(event: ping\ndata: \{"type":"ping"\}\n\n[^e]*){2}/);
    expect(received.indexOf("event: message_start")).toBeLessThan(received.indexOf("event: ping"));
    expect(received.split("event: message_start")).toHaveLength(2);
    expect(received).not.toContain("\n: keep-alive");
    connection.destroy();
  });

  it("models have Anthropic's form if anthropic-version is sent, and OpenAI's form otherwise (ANT-6)", async () => {
    const version = { "anthropic-version": "2023-06-01" };
    const models = await send(version, null, "/v1/models", "GET");
    expect(models.json).toEqual({
      data: [{ type: "model", id: "m", display_name: "m", created_at: expect.any(String), max_input_tokens: null }],
      has_more: false,
      first_id: "m",
      last_id: "m",
    });
    expect((await send(version, null, "/v1/models/org%2Fname", "GET")).json).toMatchObject({ id: "org/name" });
    for (const path of ["/v1/models", "/v1/models/m"]) {
      expect((await send({}, null, path, "GET")).json).toEqual({ object: "list" });
    }
    await expectError(send(version, "{}", "/v1/models"), 405, "invalid_request_error");
  });

  it("count_tokens returns the number of input tokens (ANT-6)", async () => {
    const { status, json } = await send({}, body, "/v1/messages/count_tokens");
    expect([status, json]).toEqual([200, { input_tokens: 3 }]);
    expect(core.last.operation).toBe("count_tokens");
  });
});

describe("a route table", () => {
  const route = (path: string, header: string | null): Route => ({ path, header, handle: () => {} });

  it("refuses two routes with the same path and header, and a route with a header whose path has no plain route", () => {
    const table = (...routes: Route[]) => new RouteTable(routes, () => {});
    expect(() => table(route("/a", null), route("/a", null))).toThrow("two routes have the path /a");
    expect(() => table(route("/a", null), route("/a", "x"), route("/a", "y"))).toThrow("two routes with a header");
    expect(() => table(route("/a", "x"))).toThrow("no route without the header x");
  });
});
