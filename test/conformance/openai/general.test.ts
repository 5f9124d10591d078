import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, user } from "./api.js";

const chatPath = "/v1/chat/completions";
const chatBody = JSON.stringify({ model: "test-chat", messages: [user] });

describe("the REST API", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService();
    api = createApi(service);
  });
  afterAll(() => service.close());

  it("is served for base URLs with and without a trailing slash (GEN-1)", async () => {
    /** Joins a base URL and a path like OpenAI's SDKs. */
    const join = (base: string, path: string) => base + (base.endsWith("/") ? path.slice(1) : path);
    for (const base of ["/v1", "/v1/"]) {
      expect((await api.get(join(base, "/models"))).status).toBe(200);
      expect((await api.send("POST", join(base, "/chat/completions"), chatBody)).status).toBe(200);
    }
    expectError(await api.send("POST", "/V1/chat/completions", chatBody), 404, "unknown_url");
  });

  it.each([
    ["/chat/completions", "/v1/chat/completions"],
    ["/v1/v1/chat/completions", "/v1/chat/completions"],
    ["/v1/chat/completions/chat/completions", "/v1/chat/completions"],
    ["/v1/chat/completions/", "/v1/chat/completions"],
    ["/embeddings", "/v1/embeddings"],
    ["/responses", "/v1/responses"],
    ["/v1/nothing", "/v1"],
    ["/.env", "/v1"],
  ])("answers %s with 404 without a key, and names %s (GEN-2, ERR-6)", async (path, meant) => {
    const reply = await api.send("POST", path, chatBody, { authorization: "" });
    expectError(reply, 404, "unknown_url");
    expect(reply.json.error.message).toContain(meant);
  });

  it("answers every kind of wrong credential with the same 401, for any body (GEN-3, ERR-11, DEC-1, DEC-12)", async () => {
    const wrong = [
      { authorization: "" },
      { authorization: "Bearer" },
      { authorization: "Bearer sk-uis-nothing" },
      { authorization: `Bearer  ${service.key}` },
      { authorization: `Basic ${service.key}` },
      { authorization: service.key },
      { authorization: "", "x-api-key": service.key },
      { authorization: "", "api-key": service.key },
      { authorization: `Bearer ${service.key}x` },
    ];
    const bodies = new Set<string>();
    for (const changes of wrong) {
      for (const body of [chatBody, "no json", '{"model":"nowhere"}']) {
        const reply = await api.send("POST", chatPath, body, changes);
        expectError(reply, 401, "invalid_api_key");
        expect(reply.json.error.type).toBe("authentication_error");
        bodies.add(reply.text);
      }
    }
    expect(bodies.size).toBe(1);
  });

  it("accepts the authorization scheme in any case (GEN-3)", async () => {
    for (const scheme of ["bearer", "BEARER", "bEaReR"]) {
      expect((await api.get("/v1/models", { authorization: `${scheme} ${service.key}` })).status).toBe(200);
    }
  });

  it("ignores SDK headers and unknown query parameters (GEN-4)", async () => {
    const headers = {
      "openai-organization": "org",
      "openai-project": "p",
      "openai-beta": "assistants=v2",
      "x-stainless-lang": "js",
      "x-stainless-retry-count": "1",
      "user-agent": "OpenAI/JS 6.49.0",
      "idempotency-key": "k",
    };
    expect((await api.send("POST", `${chatPath}?api-version=1&limit=20`, chatBody, headers)).status).toBe(200);
  });

  it("accepts JSON media types with any parameters, and answers others with 415 (GEN-6, SEC-7, ERR-17)", async () => {
    for (const type of [
      "application/json",
      "application/json; charset=utf-8",
      "application/vnd.x+json",
      "APPLICATION/JSON;a=b",
    ]) {
      expect((await api.send("POST", chatPath, chatBody, { "content-type": type })).status).toBe(200);
    }
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/json, x",
      "multipart/form-data",
    ]) {
      expectError(await api.send("POST", chatPath, chatBody, { "content-type": type }), 415, "unsupported_media_type");
    }
  });

  it("answers a curl command without the content type with an error that names the header to add (GEN-6)", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const { json } = await api.send("POST", chatPath, chatBody, form);
    expect(json.error.message).toContain("-H 'Content-Type: application/json'");
  });

  it("answers a compressed body with 415 (SEC-5, ERR-17)", async () => {
    expectError(
      await api.send("POST", chatPath, chatBody, { "content-encoding": "gzip" }),
      415,
      "unsupported_media_type",
    );
    expect((await api.send("POST", chatPath, chatBody, { "content-encoding": "identity" })).status).toBe(200);
  });

  it("ignores unknown fields, and logs each name once (GEN-10, DEC-9)", async () => {
    await api.chat({ field_of_the_future: 1 });
    await api.chat({ field_of_the_future: 2, another: 1 });
    const names = service.logs.map(({ field }) => field).filter((field) => field !== undefined);
    expect(names).toEqual(["field_of_the_future", "another"]);
  });

  it("logs names of unknown fields with at most 64 harmless characters (E-6)", async () => {
    const before = service.logs.length;
    for (const name of ["x".repeat(100), "two\nlines", "\u001b[31m", "", "ключ", "a.b-c_D9"])
      await api.chat({ [name]: 1 });
    const names = service.logs.slice(before).flatMap(({ field }) => (field === undefined ? [] : [field]));
    expect(names).toEqual(["x".repeat(64), "(unprintable)", "a.b-c_D9"]);
  });

  it("answers a body that is not JSON with 400, and uses the last value of a repeated key (GEN-11, ERR-7)", async () => {
    for (const body of ["", "{", "nope", "{'a':1}", '{"model":"test-chat",}', "\u0000"]) {
      expectError(await api.send("POST", chatPath, body), 400, "invalid_json");
    }
    for (const body of ["[]", "1", "null"]) expectError(await api.send("POST", chatPath, body), 400, "invalid_type");
    const repeated = chatBody.replace("{", '{"model":"nowhere",');
    expect((await api.send("POST", chatPath, repeated)).status).toBe(200);
  });

  it("accepts JSON of 64 levels, but not of 65 or with more tokens than the limit (GEN-11, SEC-9)", async () => {
    const nested = (levels: number) =>
      chatBody.replace("{", `{"x":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)},`);
    expect((await api.send("POST", chatPath, nested(64))).status).toBe(200);
    for (const levels of [65, 1_000, 1_000_000]) {
      expectError(await api.send("POST", chatPath, nested(levels)), 400, "invalid_json");
    }
    const manyTokens = chatBody.replace("{", `{"x":[${"1,".repeat(250_000)}1],`);
    expectError(await api.send("POST", chatPath, manyTokens), 400, "invalid_json");
  });

  it.each([
    '{"__proto__":{"model":"test-chat"},',
    '{"x":[{"\\u005f_proto__":1}],',
    '{"metadata":{"__proto__":"x"},',
    '{"x":{"constructor":{"prototype":{"admin":true}}},',
  ])("rejects a body with %s, and serves the next request normally (SEC-11)", async (start) => {
    const reply = await api.send("POST", chatPath, chatBody.replace("{", start));
    expectError(reply, 400, "invalid_json");
    expect(reply.json.error.message).toMatch(/__proto__|constructor/);
    expect(({} as Record<string, unknown>)["admin"]).toBeUndefined();
    expect((await api.chat()).status).toBe(200);
  });

  it("answers with 400 and the model's kind if the model cannot run the operation (GEN-13, ERR-8)", async () => {
    expectError(await api.chat({ model: "test-embed" }), 400, "model_not_supported", "model");
    expectError(await api.embeddings({ model: "test-chat" }), 400, "model_not_supported", "model");
  });

  it("accepts seeds beyond 2^53 (GEN-14)", async () => {
    for (const seed of ["9007199254740993", "9223372036854775807", "9223372036854775808", "-1e40"]) {
      const { status } = await api.send("POST", chatPath, chatBody.replace("{", `{"seed":${seed},`));
      expect(status).toBe(200);
    }
  });

  it("passes schemas to the engine with unchanged text (PROTO-4)", async () => {
    const tool =
      '{"type":"function","function":{"name":"f","parameters":{"type":"object","maximum":9007199254740993,"2":{},"1":{}}}}';
    const { status } = await api.send("POST", chatPath, chatBody.replace("{", `{"tools":[${tool}],`));
    expect(status).toBe(200);
  });

  it("is served by the same listener and core as Connect (PROTO-5)", async () => {
    const rpc = "/unified.inference.v1.InferenceService/CreateChatCompletion";
    const params = { model: "test-chat", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] };
    const [overRest, overConnect] = await Promise.all([api.chat(), api.post(rpc, { params })]);
    expect(overConnect.status).toBe(200);
    const said = overConnect.json.completion.choices[0].message.content;
    expect(said).toBe(overRest.json.choices[0].message.content);
  });

  it("never serves a path under /v1 as Connect (PROTO-6)", async () => {
    const connect = { "connect-protocol-version": "1", "connect-timeout-ms": "1000" };
    for (const path of [chatPath, "/v1/completions", "/v1/embeddings", "/v1/nothing", "/v1/webhooks"]) {
      const { json, headers } = await api.send("POST", path, "{}", connect);
      expect(Object.keys(json)).toEqual(["error"]);
      expect(headers.get("content-type")).toBe("application/json");
    }
  });

  it("has a small JSON document at / and /v1 that lists its routes (CONN-8)", async () => {
    for (const path of ["/", "/v1", "/v1/"]) {
      const { status, text, headers } = await api.get(path, { authorization: "" });
      expect(status).toBe(200);
      expect(headers.get("content-type")).toBe("application/json");
      expect(text).toContain("/v1/models");
      expect(text.length).toBeLessThan(2_000);
    }
  });

  it("answers no request with a redirect (CONN-7)", async () => {
    const paths = [
      "/",
      "/v1",
      "/v1/",
      "/v1/models",
      "/v1/models/",
      "//v1/models",
      "/v1/chat/completions/",
      "/docs",
      "/dashboard/",
    ];
    for (const path of paths) {
      const { status, headers } = await api.get(path);
      expect(Math.floor(status / 100)).not.toBe(3);
      expect(headers.get("location")).toBeNull();
    }
  });

  it("redirects only browsers from / to the dashboard (CONN-7)", async () => {
    const ask = (accept: string, method = "GET") =>
      fetch(`${service.http}/`, { method, headers: { accept }, redirect: "manual" });
    const browser = await ask("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    expect([browser.status, browser.headers.get("location"), browser.headers.get("vary")]).toEqual([
      302,
      "dashboard/",
      "Accept",
    ]);
    expect(await browser.text()).toContain('href="dashboard/"');
    expect((await ask("text/html", "POST")).status).toBe(405);
    for (const accept of ["*/*", "application/json"]) expect((await ask(accept)).status).toBe(200);
  });

  it("returns its version at /version to a caller with a credential", async () => {
    expect((await api.get("/version")).json).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    expectError(await api.get("/version", { authorization: "" }), 401, "invalid_api_key");
  });
});
