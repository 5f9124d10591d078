import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { chatRequest, loadUpstreamModel, runEvents, upstreamSettings } from "../../support/upstream/engine-calls.js";
import { answerBytes, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { eventsText, recordedBytes, recordedFolder, writtenMessages } from "../../support/upstream/recorded-answers.js";

/** The start of an answer without an end. */
const begun =
  streamHead +
  sse({ type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 1 } } }) +
  sse({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }) +
  sse({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello" } });

/** Errors by the name of the recorded answer: status, code and Retry-After of the service. */
const errors = [
  ["err-auth", 502, "upstream_unauthorized", null],
  ["err-rate-limit", 503, "upstream_rate_limited", "7"],
  ["err-overloaded", 503, "server_is_overloaded", "3"],
  ["err-max-tokens", 400, "invalid_value", null],
  ["err-too-long", 400, "context_length_exceeded", null],
  ["err-credit", 502, "upstream_unauthorized", null],
  ["err-unknown-model", 502, "upstream_error", null],
] as const;

let upstream: RawUpstream;
/** Open connections with an answer without an end. */
let openEndless = 0;
let service: RunningService;
let client: ServiceClient;

/** A server with Anthropic's API. It answers with the recording that the model's name selects. */
beforeAll(async () => {
  upstream = await RawUpstream.start((socket, { method, path, body }) => {
    if (path === "/v1/models?limit=1000") {
      socket.write(recordedBytes("anthropic/models"));
      return;
    }
    const model = /"model":"([^"]*)"/.exec(body)?.[1] ?? "";
    if (method !== "POST" || path !== "/v1/messages") socket.end(answerBytes("404 Not Found", "text/plain", "no"));
    else if (model === "endless") {
      openEndless += 1;
      socket.write(begun);
      socket.on("close", () => {
        openEndless -= 1;
      });
    } else socket.write(recordedBytes(`anthropic/${model.startsWith("claude") ? "chat-stream" : model}`));
  });
  const settings = { url: upstream.url, kind: "anthropic", key: "sk-ant-1" };
  const answers = ["chat-stream", "chat-tools-stream", "chat-stop-stream", "chat-thinking-stream", "endless"];
  const models = [...answers, "chat-overloaded-stream"].map((id) => ({ id, engine: "openai", upstream: "claude" }));
  // A 401 or 429 pauses the key of an upstream, so each failing model has its own upstream.
  const failing = errors.map(([id]) => ({ id, engine: "openai", upstream: id }));
  service = await startService({
    config: {
      upstreams: {
        claude: settings,
        listed: settings,
        ...Object.fromEntries(errors.map(([id]) => [id, settings])),
      },
      models: [
        ...models.map((model) => ({ ...model, prices: { input: 10, cached_input: 1, output: 100 } })),
        ...failing,
      ],
    },
  });
  client = new ServiceClient(service.api, service.key);
});
afterAll(async () => {
  await service.close();
  await upstream.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
});

const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }];
const sentBody = () => JSON.parse(upstream.requests.find(({ method }) => method === "POST")?.body ?? "{}");
/** The chunks of a streamed answer. */
const chunksOf = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)));

describe("chats on a server with Anthropic's API", () => {
  it("are sent to its Messages API with its version and the key in x-api-key alone", async () => {
    await client.chat("chat-stream", { max_tokens: 20 });
    const [sent] = upstream.requests;
    expect(sent).toMatchObject({
      path: "/v1/messages",
      headers: { "x-api-key": "sk-ant-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
    });
    expect(sent?.headers).not.toHaveProperty("authorization");
    expect(sentBody()).toEqual({
      model: "chat-stream",
      max_tokens: 20,
      messages: [{ role: "user", content: [{ type: "text", text: "one two" }] }],
      stream: true,
    });
  });

  it("have the text, finish reason and usage of its answer, including cached tokens", async () => {
    const { json, text } = await client.chat("chat-stream");
    const message = { role: "assistant", content: 'Hello there, "friend"!\nHow are you — 👋?' };
    expect(json, text).toMatchObject({
      model: "chat-stream",
      choices: [{ message, finish_reason: "stop" }],
      usage: { prompt_tokens: 1_508, completion_tokens: 17, prompt_tokens_details: { cached_tokens: 1_200 } },
    });
  });

  it("stream its text as it comes, and end with its usage", async () => {
    const { text } = await client.chat("chat-stream", { stream: true, stream_options: { include_usage: true } });
    const chunks = chunksOf(text);
    const texts = chunks.flatMap(({ choices }) => choices[0]?.delta.content || []);
    expect(texts).toEqual(["Hello", " there", ', "friend"', "!\nHow are", " you — 👋", "?"]);
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 1_508, completion_tokens: 17 });
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  it.each([false, true])("have its tool calls, streamed: %s", async (stream) => {
    const { json, text } = await client.chat("chat-tools-stream", { stream, tools });
    const { message, finish_reason } = stream
      ? {
          message: { tool_calls: callsOf(chunksOf(text)) },
          finish_reason: chunksOf(text).at(-1).choices[0].finish_reason,
        }
      : ((json["choices"] as { message: { tool_calls: object[] }; finish_reason: string }[])[0] ?? {});
    expect(finish_reason).toBe("tool_calls");
    const called = (at: number, args: string) => ({
      id: `toolu_0${at}T1x1fJ34qAmk2tNTrN7Up6`,
      function: { name: "get_weather", arguments: args },
    });
    expect(message?.tool_calls).toMatchObject([called(1, '{"city": "San Francisco"}'), called(2, "{}")]);
  });

  it("have its thinking as reasoning", async () => {
    const { json } = await client.chat("chat-thinking-stream", { reasoning_effort: "low" });
    expect(json).toMatchObject({
      choices: [{ message: { content: "Hello.", reasoning_content: "The user greets me; I greet back.\n" } }],
      usage: { completion_tokens_details: { reasoning_tokens: 30 } },
    });
    expect(sentBody().thinking).toEqual({ type: "enabled", budget_tokens: 2_048 });
  });

  it.each(errors)("%s is answered with %i and %s (ERR-28)", async (model, status, code, wait) => {
    const answer = await client.chat(model);
    expect(answer).toMatchObject({ status, code });
    expect(answer.headers.get("retry-after")).toBe(wait);
  });

  it("end with one error event when the server reports an overload during its answer (ERR-28)", async () => {
    const { text } = await client.chat("chat-overloaded-stream", { stream: true });
    expect(text).toContain("Once upon");
    expect(text.match(/"code":"[^"]*"/g)).toEqual(['"code":"server_is_overloaded"']);
    expect(text).not.toContain("[DONE]");
  });

  it("close their connection to the server when the client disconnects, and are charged the tokens received until then (REL-2)", async () => {
    const reader = await client.stream("endless");
    await reader.read();
    expect(openEndless).toBe(1);
    await reader.cancel();
    await eventually(() => openEndless === 0, "the closed connection at the server");
    const line = () => service.logs.find(({ msg, model }) => msg === "request" && model === "endless");
    await eventually(() => line() !== undefined, "the line of the log");
    expect(line()).toMatchObject({ outcome: "client_left", prompt_tokens: 5, completion_tokens: 1 });
  });

  it("are offered for the models that the server lists, with the capabilities of each", async () => {
    const format = { type: "json_schema", json_schema: { name: "n", schema: { type: "object" }, strict: true } };
    const bound = await client.chat("claude-sonnet-4-6", { response_format: format, reasoning_effort: "high" });
    expect(bound.status, bound.text).toBe(200);
    expect(sentBody()).toMatchObject({
      max_tokens: 64_000,
      thinking: { type: "adaptive" },
      output_config: { effort: "high", format: { type: "json_schema", schema: { type: "object" } } },
    });
    const refused = await client.chat("claude-older", { response_format: format });
    expect(refused).toMatchObject({ status: 400, code: "unsupported_value" });
    const { json } = await client.get("/v1/models/claude-haiku-4-5-20251001");
    expect(json).toMatchObject({ id: "claude-haiku-4-5-20251001" });
  });

  it.each(Object.keys(writtenMessages))(
    "%s gives the events of its golden file, sent in one piece and byte by byte",
    async (name) => {
      const request = writtenMessages[name] ?? chatRequest();
      const golden = readFileSync(join(recordedFolder, `${name}.events.json`), "utf8");
      for (const isSplit of [false, true]) {
        const server = await RawUpstream.start((socket, { method }) => {
          if (method === "GET") socket.end(answerBytes("404 Not Found", "text/plain", "no"));
          else if (isSplit) for (const byte of recordedBytes(name)) socket.write(Buffer.from([byte]));
          else socket.write(recordedBytes(name));
        });
        const model = await loadUpstreamModel(upstreamSettings(server.url, { kind: "anthropic" }));
        const { events, error } = await runEvents(model, request);
        await model.unload(0);
        await server.close();
        expect(error).toBeNull();
        expect(eventsText(events)).toBe(golden);
      }
    },
  );
});

/** Joins the parts of tool calls in the chunks of a stream. */
function callsOf(chunks: readonly { choices: { delta: { tool_calls?: CallPart[] } }[] }[]): object[] {
  const calls: { id: string | undefined; function: { name: string | undefined; arguments: string } }[] = [];
  for (const { choices } of chunks) {
    for (const part of choices[0]?.delta.tool_calls ?? []) {
      const { id, index } = part;
      calls[index] ??= { id, function: { name: part.function.name, arguments: "" } };
      const call = calls[index];
      if (call !== undefined) call.function.arguments += part.function.arguments ?? "";
    }
  }
  return calls;
}

interface CallPart {
  readonly index: number;
  readonly id?: string;
  readonly function: { readonly name?: string; readonly arguments?: string };
}
