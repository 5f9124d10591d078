import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { unlimited } from "../../../src/domain/call/rate-limits.js";
import { DocumentedAnswers } from "../../support/documented-answers.js";
import { readOpenApi } from "../../support/openapi-document.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, type Reply } from "../openai/api.js";

const failing = (code: string, after_tokens = 0) => ({
  id: `${code}-${after_tokens}`,
  engine: "scripted",
  scripted: { text: "a b c", fail: { code, after_tokens } },
});
const weather = { type: "function", function: { name: "weather", parameters: { type: "object" } } };
const url = "https://127.0.0.1:9443/hook";

const config = {
  responses: { keep: "1h" },
  webhooks: { deliver: false, allow_private_cidrs: ["127.0.0.0/8"] },
  limits: { body_bytes_max: 20_000, queue_wait: "50ms" },
  rate_limits: { default_key: { requests_per_minute: 1_000, tokens_per_minute: 1_000_000 } },
  models: [
    { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script." } },
    { id: "calls", engine: "scripted", scripted: { tool_call: { name: "weather", arguments: { at: "Bonn" } } } },
    { id: "test-embed", engine: "scripted", scripted: { dimensions: 8 } },
    { id: "test-rerank", engine: "scripted", scripted: { rerank: true } },
    { id: "slow", engine: "scripted", scripted: { text: "a", first_token_delay_ms: 2_000 } },
    failing("internal_error"),
    failing("upstream_error"),
    failing("upstream_error", 2),
    failing("server_is_overloaded"),
  ],
};

const documented = new DocumentedAnswers(readOpenApi());
let service: RunningService;
let api: Api;
let reader: Api;

beforeAll(async () => {
  service = await startService({ config });
  api = createApi(service);
  reader = createApi({ http: service.http, key: service.readKey });
});
afterAll(() => service.close());

/** Expects an answer with this status that matches docs/openapi.json. */
function expectDocumented(operationId: string, status: number, reply: Reply): void {
  expect([reply.status, reply.text]).toEqual([status, reply.text]);
  expect(documented.faults(operationId, reply)).toEqual([]);
}

async function chats(fields: object, status = 200): Promise<void> {
  expectDocumented("createChatCompletion", status, await api.chat(fields));
}

describe("responses match docs/openapi.json", () => {
  it("for chat (RESP-1, RESP-8, RESP-9)", async () => {
    await chats({});
    await chats({ n: 2, logprobs: true, top_logprobs: 2, service_tier: "flex" });
    await chats({ model: "calls", tools: [weather] });
  });

  it("for streamed chat, with calls, usage and an error (STRM-10, STRM-17, SERR-1)", async () => {
    await chats({ stream: true });
    await chats({ stream: true, n: 2, logprobs: true, top_logprobs: 1, stream_options: { include_usage: true } });
    await chats({ stream: true, model: "calls", tools: [weather] });
    await chats({ stream: true, model: "upstream_error-2" });
  });

  it("for responses, whole and streamed (RSP-4, RSP-6, RSP-10)", async () => {
    const include = ["message.output_text.logprobs"];
    const flat = { type: "function", name: "weather", parameters: { type: "object" } };
    for (const fields of [
      { instructions: "Be brief.", metadata: { a: "b" }, include, top_logprobs: 1, max_output_tokens: 1 },
      { model: "calls", tools: [flat, { type: "web_search" }], tool_choice: { type: "function", name: "weather" } },
      { model: "upstream_error-2", stream: true },
    ]) {
      for (const stream of [false, true]) {
        const failed = fields.model === "upstream_error-2" && !stream;
        expectDocumented("createResponse", failed ? 502 : 200, await api.response({ ...fields, stream }));
      }
    }
    expectDocumented("createResponse", 400, await api.response({ background: true }));
  });

  it("for stored responses and their input (RSP-21, RSP-22)", async () => {
    const { id } = (await api.response({ input: [{ role: "assistant", content: "Hi" }] })).json;
    const next = await api.response({ previous_response_id: id });
    expectDocumented("createResponse", 200, next);
    const path = `/v1/responses/${next.json.id}`;
    expectDocumented("getResponse", 200, await reader.get(path));
    expectDocumented("getResponse", 400, await reader.get(`${path}?stream=true`));
    const items = await reader.get(`${path}/input_items?order=asc`);
    expectDocumented("listResponseInputItems", 200, items);
    expect(items.json.data).toHaveLength(3);
    expectDocumented("listResponseInputItems", 400, await reader.get(`${path}/input_items?limit=0`));
    expectDocumented("deleteResponse", 403, await reader.send("DELETE", path, undefined));
    expectDocumented("deleteResponse", 200, await api.send("DELETE", path, undefined));
    expectDocumented("deleteResponse", 404, await api.send("DELETE", path, undefined));
    expectDocumented("createResponse", 400, await api.response({ previous_response_id: next.json.id }));
  });

  it("for completions, whole and streamed (CMPL-4, CMPL-6, CMPL-7)", async () => {
    for (const fields of [
      {},
      { prompt: ["a", "b"], logprobs: 2, echo: true },
      { stream: true, logprobs: 1, stream_options: { include_usage: true } },
      { stream: true, model: "upstream_error-2" },
    ]) {
      expectDocumented("createCompletion", 200, await api.completion(fields));
    }
  });

  it("for embeddings in both encodings (EMB-3, EMB-5, EMB-6)", async () => {
    expectDocumented("createEmbeddings", 200, await api.embeddings({ input: ["a", "b"] }));
    expectDocumented("createEmbeddings", 200, await api.embeddings({ encoding_format: "base64" }));
  });

  it("for rerank, with and without documents (RANK-2, RANK-5)", async () => {
    expectDocumented("rerank", 200, await api.rerank({ documents: ["a", { text: "b" }] }));
    expectDocumented("rerank", 200, await api.rerank({ return_documents: false }));
    expectDocumented("rerank", 400, await api.rerank({ top_n: 0 }));
  });

  it("for messages, whole and streamed, and for token counts (ANT-2, ANT-5, ANT-6)", async () => {
    const tools = [{ name: "weather", input_schema: { type: "object" } }];
    for (const fields of [{}, { model: "calls", tools }]) {
      expectDocumented("createMessage", 200, await api.message(fields));
      expectDocumented("createMessage", 200, await api.message({ ...fields, stream: true }));
    }
    expectDocumented("createMessage", 200, await api.message({ model: "upstream_error-2", stream: true }));
    expectDocumented("countMessageTokens", 200, await api.countTokens());
    expectDocumented("countMessageTokens", 400, await api.countTokens({ messages: [] }));
    expectDocumented("createMessage", 400, await api.message({ max_tokens: null }));
    expectDocumented("createMessage", 403, await reader.message());
    expectDocumented("createMessage", 404, await api.message({ model: "nowhere" }));
    expectDocumented("createMessage", 405, await api.send("PUT", "/v1/messages", "{}"));
    expectDocumented("createMessage", 413, await api.message({ system: "a".repeat(20_000) }));
    expectDocumented("createMessage", 529, await api.message({ model: "server_is_overloaded-0" }));
  });

  it("for models (MODEL-1, MODEL-10)", async () => {
    expectDocumented("listModels", 200, await reader.get("/v1/models"));
    for (const id of ["test-chat", "test-embed", "test-rerank"]) {
      expectDocumented("getModel", 200, await reader.get(`/v1/models/${id}`));
    }
    expectDocumented("getModel", 404, await reader.get("/v1/models/nowhere"));
  });

  it("for usage (USE-10)", async () => {
    await chats({});
    const grouped = await reader.get("/v1/usage?group_by=model,key&bucket_width=1h&limit=2");
    expectDocumented("getUsage", 200, grouped);
    expect(grouped.json.data.flatMap(({ results }: { results: unknown[] }) => results).length).toBeGreaterThan(0);
    expectDocumented("getUsage", 200, await reader.get("/v1/usage?start_time=1&limit=1"));
    expectDocumented("getUsage", 400, await reader.get("/v1/usage?limit=0"));
  });

  it("for webhook endpoints (WH-1, WH-2)", async () => {
    const made = await api.post("/v1/webhooks", { url, events: ["request.failed"], status: "disabled" });
    expectDocumented("createWebhookEndpoint", 200, made);
    expectDocumented("createWebhookEndpoint", 400, await api.post("/v1/webhooks", { url, events: [] }));
    expectDocumented("listWebhookEndpoints", 200, await reader.get("/v1/webhooks"));
    const path = `/v1/webhooks/${made.json.id}`;
    expectDocumented("getWebhookEndpoint", 200, await reader.get(path));
    expectDocumented("deleteWebhookEndpoint", 403, await reader.send("DELETE", path, undefined));
    expectDocumented("deleteWebhookEndpoint", 200, await api.send("DELETE", path, undefined));
    expectDocumented("getWebhookEndpoint", 404, await reader.get(path));
    expectDocumented("deleteWebhookEndpoint", 404, await api.send("DELETE", path, undefined));
  });

  it("for the pages outside the API (CONN-8)", async () => {
    expectDocumented("getHealth", 200, await api.get("/health", { authorization: "" }));
    expectDocumented("getReadiness", 200, await api.get("/ready", { authorization: "" }));
    expectDocumented("getVersion", 200, await reader.get("/version"));
    expectDocumented("getVersion", 401, await api.get("/version", { authorization: "" }));
  });

  it("for rejections and failures (ERR-1, ERR-13, ERR-16, ERR-17, RETRY-1)", async () => {
    await chats({ temperature: 3 }, 400);
    await chats({ model: "nowhere" }, 404);
    await chats({ messages: [{ role: "user", content: "a".repeat(20_000) }] }, 413);
    await chats({ model: "internal_error-0" }, 500);
    await chats({ model: "upstream_error-0" }, 502);
    const overloaded = await api.chat({ model: "server_is_overloaded-0" });
    expectDocumented("createChatCompletion", 503, overloaded);
    expect(overloaded.headers.get("retry-after")).not.toBeNull();
    const late = await api.chat({ model: "slow" }, { "x-request-timeout": "0.2" });
    expectDocumented("createChatCompletion", 504, late);
    const path = "/v1/chat/completions";
    expectDocumented("createChatCompletion", 401, await api.chat({}, { authorization: "Bearer sk-uis-nobody" }));
    expectDocumented("createChatCompletion", 403, await reader.chat());
    expectDocumented("createChatCompletion", 405, await api.send("PUT", path, "{}"));
    expectDocumented("createChatCompletion", 415, await api.send("POST", path, "{}", { "content-type": "text/plain" }));
    expectDocumented("createChatCompletion", 431, await api.chat({}, { "x-long": "a".repeat(33_000) }));
  });

  it("for a key that has reached its limit (ERR-19, wire RL-1)", async () => {
    const { secret } = await service.service.parts.apiKeys.create({
      name: "limited",
      scope: "read_write",
      limits: { ...unlimited, requestsPerMinute: 1 },
    });
    const limited = createApi({ http: service.http, key: secret });
    expectDocumented("createChatCompletion", 200, await limited.chat());
    const refused = await limited.chat();
    expectDocumented("createChatCompletion", 429, refused);
    expect(refused.headers.get("x-ratelimit-remaining-requests")).toBe("0");
  });

  it("for every documented success response", () => {
    expect(documented.unseenSuccesses()).toEqual([]);
  });
});

describe("the comparison with docs/openapi.json", () => {
  const headers = new Headers({ "content-type": "application/json", "x-request-id": `req_${"0".repeat(32)}` });
  const compare = (body: object, status = 200) =>
    new DocumentedAnswers(readOpenApi()).faults("getHealth", { status, headers, text: JSON.stringify(body) });

  it("finds undocumented responses", () => {
    expect(compare({ status: "ok" })).toEqual([]);
    expect(compare({ status: "fine" })).not.toEqual([]);
    expect(compare({ status: "ok", more: 1 })).not.toEqual([]);
    expect(compare({ status: "ok" }, 201)).not.toEqual([]);
    expect(compare({ error: { message: "", type: "server_error", param: null, code: "conflict" } }, 500)).not.toEqual(
      [],
    );
  });
});
