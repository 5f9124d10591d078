import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { recordedBytes } from "../../support/upstream/recorded-answers.js";
import { whole } from "../../support/upstream/test-upstream.js";

/** A message that a chat completion cannot express: it has a tool that the server runs itself, and a mark for its cache. */
const message = {
  model: "both",
  max_tokens: 20,
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: [{ type: "document", source: { type: "text", data: "x" } }] }],
  tools: [{ type: "web_search_20250305", name: "web_search" }],
};
const response = { model: "both", input: "Hello", tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] };
const plain = { model: "both", max_tokens: 20, messages: [{ role: "user", content: "Hello" }] };

let native: RawUpstream;
let chatOnly: RawUpstream;
let service: RunningService;
let client: ServiceClient;
let fails = false;

beforeAll(async () => {
  native = await RawUpstream.start((socket, { path, body }) => {
    if (fails) socket.write(recordedBytes("anthropic/err-overloaded"));
    else if (body.includes("endless")) {
      const start = { type: "message_start", message: { usage: { input_tokens: 5 } } };
      const delta = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } };
      socket.write(streamHead + sse(start) + sse(delta));
    } else if (path === "/v1/messages") socket.write(recordedBytes("anthropic/chat-tools-stream"));
    else if (path === "/v1/responses") socket.write(recordedBytes("responses/text-stream"));
    else socket.end(answerBytes("404 Not Found", "text/plain", "no"));
  });
  chatOnly = await RawUpstream.start((socket) => void socket.end(whole));
  const at = (upstream: RawUpstream, more: object) => ({ url: upstream.url, discover: "off", ...more });
  service = await startService({
    config: {
      upstreams: {
        // Azure lists no models.
        plain: at(chatOnly, { kind: "azure" }),
        native: at(native, { kind: "generic", key: "k", native: ["responses", "messages"] }),
      },
      models: [
        {
          id: "both",
          deployments: [
            { engine: "openai", upstream: "native", model: "claude-x", prices: { input: 10, output: 100 } },
            { engine: "openai", upstream: "plain", model: "p", priority: 1 },
          ],
        },
        { id: "plain", engine: "openai", upstream: "plain", model: "p" },
      ],
    },
  });
  client = new ServiceClient(service.api, service.key, { "anthropic-beta": "context-management-2025-06-27" });
});
afterAll(async () => {
  await service.close();
  await native.close();
  await chatOnly.close();
});
beforeEach(() => {
  native.requests.length = 0;
  chatOnly.requests.length = 0;
  fails = false;
});

const posted = (upstream: RawUpstream) => upstream.requests.filter(({ method }) => method === "POST");
const types = (text: string) => text.match(/(?<=^event: ).*$/gm);

describe("requests to an upstream that has their API", () => {
  it("are forwarded unmodified except for the upstream's model name and key, and are always streamed", async () => {
    await client.post("/v1/messages", message);
    const [sent] = posted(native);
    expect(sent).toMatchObject({
      path: "/v1/messages",
      headers: {
        authorization: "Bearer k",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "context-management-2025-06-27",
      },
    });
    expect(JSON.parse(sent?.body ?? "")).toEqual({ ...message, model: "claude-x", stream: true });
    await client.post("/v1/responses", { ...response, stream: true });
    expect(posted(native)[1]).toMatchObject({ path: "/v1/responses" });
    expect(JSON.parse(posted(native)[1]?.body ?? "")).toEqual({ ...response, model: "claude-x", stream: true });
    expect(posted(chatOnly)).toEqual([]);
  });

  it("get the upstream's events with the model name that the client sent", async () => {
    const { text } = await client.post("/v1/messages", { ...message, stream: true });
    expect(types(text)?.filter((type) => type !== "ping")).toEqual([
      "message_start",
      ...["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"],
      ...["content_block_start", ...Array(3).fill("content_block_delta"), "content_block_stop"],
      ...["content_block_start", "content_block_delta", "content_block_stop"],
      ...["message_delta", "message_stop"],
    ]);
    expect(text).toContain('"model":"both"');
    expect(text).toContain('"id":"msg_01BYHAND"');
    const answer = await client.post("/v1/responses", { ...response, stream: true });
    expect(types(answer.text)?.at(-1)).toBe("response.completed");
    expect(answer.text.match(/response\.created"/g)).toHaveLength(1);
    expect(answer.text).not.toContain("gpt-x");
  });

  it("get a whole answer if the client does not stream", async () => {
    const { json } = await client.post("/v1/messages", message);
    expect(json).toMatchObject({ id: "msg_01BYHAND", model: "both", stop_reason: "tool_use" });
    const answer = await client.post("/v1/responses", response);
    expect(answer.json).toMatchObject({ id: "resp_01BYHAND", model: "both", status: "completed" });
  });

  it("are charged by the usage in the answer", async () => {
    const { headers } = await client.post("/v1/responses", { ...response, stream: true });
    const id = headers.get("x-request-id");
    const line = () => service.logs.find(({ msg, request_id }) => msg === "request" && request_id === id);
    await eventually(() => line() !== undefined, "the line of the log");
    expect(line()).toMatchObject({ prompt_tokens: 36, completion_tokens: 12, deployment: "native/claude-x" });
  });

  it("are translated for another deployment when the upstream fails before its content", async () => {
    fails = true;
    const { json, headers } = await client.post("/v1/messages", plain);
    expect(json).toMatchObject({ content: [{ type: "text", text: "Hello" }], model: "both" });
    expect(headers.get("x-uis-attempts")).toBe("2");
  });

  it("that a chat completion cannot express are rejected if no deployment has their API", async () => {
    const { status, text } = await client.post("/v1/messages", { ...message, model: "plain" });
    expect(status).toBe(400);
    expect(text).toContain("invalid_request_error");
    fails = true;
    expect((await client.post("/v1/messages", message)).status).toBe(529);
    expect(posted(chatOnly)).toEqual([]);
  });

  it("are cancelled at the upstream when the client leaves (REL-2)", async () => {
    const leave = new AbortController();
    const body = JSON.stringify({ ...plain, stream: true, metadata: { user_id: "endless" } });
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    const { body: stream } = await fetch(`${service.http}/v1/messages`, {
      ...{ method: "POST", headers, body },
      signal: leave.signal,
    });
    await stream?.getReader().read();
    leave.abort();
    await eventually(() => native.isIdle, "the closed connection at the upstream");
  });

  it("may not run in the background, because no limit would apply there", async () => {
    expect((await client.post("/v1/responses", { ...response, background: true })).status).toBe(400);
    expect(posted(native)).toEqual([]);
  });
});
