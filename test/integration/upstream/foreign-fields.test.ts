import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatOf, createChatCompletion, streamChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay, wayNames } from "../../conformance/rpc/ways.js";
import { ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { answerBytes, RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";

/** Value, or part of it, of each field that the upstream sends and the API does not have. */
const foreign = "foreign-value";

/** Adds fields that some servers send, and invented ones. */
function withForeign(object: object): object {
  return {
    ...object,
    provider: foreign,
    token_ids: [foreign],
    x_new: { deep: [foreign] },
    metrics: { ttft: foreign },
    [foreign]: 1,
  };
}

const logprobs = withForeign({
  content: [
    withForeign({
      token: "Hi",
      logprob: -0.5,
      bytes: [72, 105],
      top_logprobs: [withForeign({ token: "Hi", logprob: -0.5, bytes: null })],
    }),
  ],
});
const call = (more: object) => withForeign({ index: 0, ...more });
const chunk = (delta: object, finish: string | null, more: object = {}) =>
  sse(
    withForeign({
      ...{ id: foreign, object: foreign, created: 1, model: foreign, service_tier: foreign },
      choices: [
        withForeign({ index: 0, delta: withForeign(delta), finish_reason: finish, native_finish_reason: foreign }),
      ],
      ...more,
    }),
  );
const usage = withForeign({
  ...{ prompt_tokens: 4, completion_tokens: 2, total_tokens: 6, cost: foreign },
  prompt_tokens_details: withForeign({ cached_tokens: 1, created_cache_tokens: 7, multimodal_tokens: 8 }),
  completion_tokens_details: withForeign({ reasoning_tokens: 1 }),
});

const answers: Readonly<Record<string, string>> = {
  text: [
    chunk({ role: "assistant", content: "", annotations: [foreign] }, null),
    chunk({ content: "Hi" }, null, {}).replace(
      '"finish_reason":null',
      `"logprobs":${JSON.stringify(logprobs)},"finish_reason":null`,
    ),
    chunk({ reasoning_content: "Hm" }, null),
    chunk({ content: "!" }, "stop"),
  ].join(""),
  tools: [
    chunk(
      {
        tool_calls: [
          call({ id: "call_0", type: "function", function: withForeign({ name: "get_weather", arguments: "" }) }),
        ],
      },
      null,
    ),
    chunk({ tool_calls: [call({ function: withForeign({ arguments: '{"city":"Oslo"}' }) })] }, "tool_calls"),
  ].join(""),
};
const end = sse(withForeign({ id: foreign, model: foreign, choices: [], usage })) + sse("[DONE]");

const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }];

let upstream: RawUpstream;
let service: RunningService;
let client: ServiceClient;

beforeAll(async () => {
  upstream = await RawUpstream.start((socket, { body }) => {
    const { model } = JSON.parse(body) as { model: string };
    if (model === "refuses") {
      const error = withForeign({
        error: withForeign({ message: "no such voice", type: foreign, code: foreign, param: "voice" }),
      });
      socket.end(answerBytes("400 Bad Request", "application/json", JSON.stringify(error)));
    } else socket.end(`${streamHead}: ${foreign}\n\nevent: message\nid: ${foreign}\n${answers[model]}${end}`);
  });
  const models = [...Object.keys(answers), "refuses"].map((id) => ({
    id,
    engine: "openai",
    upstream: "up",
    model: id,
  }));
  // Azure lists no models, so the server receives nothing but requests.
  service = await startService({ config: { upstreams: { up: { url: upstream.url, kind: "azure" } }, models } });
  client = new ServiceClient(service.api, service.key);
});
afterAll(async () => {
  await service.close();
  await upstream.close();
});

describe("fields that an upstream sends and the API does not have", () => {
  it.each(Object.keys(answers))("reach no REST client: %s", async (model) => {
    const more = model === "tools" ? { tools } : { logprobs: true, top_logprobs: 1 };
    const unary = await client.chat(model, more);
    const streamed = await client.chat(model, { ...more, stream: true, stream_options: { include_usage: true } });
    for (const { status, text, headers } of [unary, streamed]) {
      expect(status, text).toBe(200);
      expect(text).not.toContain(foreign);
      expect(JSON.stringify([...headers])).not.toContain(foreign);
      expect(text).toContain(`"model":"${model}"`);
    }
    expect(unary.json["usage"]).toMatchObject({
      prompt_tokens: 4,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 1 },
    });
    expect(streamed.text).toContain("[DONE]");
  });

  it("reach no REST client in an error", async () => {
    const { status, text, json } = await client.chat("refuses");
    expect(status).toBe(400);
    expect(json).toMatchObject({ error: { message: "no such voice", param: "voice", code: "invalid_value" } });
    expect(text).not.toContain(foreign);
  });

  it.each(wayNames)("reach no client of %s", async (name) => {
    const way = openWay(name, service);
    for (const method of [createChatCompletion, streamChatCompletion]) {
      for (const model of [...Object.keys(answers), "refuses"]) {
        const outcome = await way.call(
          method,
          chatOf(model, model === "text" ? { logprobs: true, topLogprobs: 1 } : {}),
        );
        expect(outcome.failure === null).toBe(model !== "refuses");
        const seen = JSON.stringify(outcome, (_, value: unknown) =>
          typeof value === "bigint" ? String(value) : value,
        );
        expect(seen).not.toContain(foreign);
      }
    }
    way.close();
  });
});

describe("invalid requests that some upstreams would accept", () => {
  const messages = [{ role: "user", content: "Hi" }];
  it.each([
    ["an unknown role", { messages: [{ role: "wizard", content: "Hi" }] }, "messages[0].role"],
    ["no tokens", { messages, max_tokens: 0 }, "max_tokens"],
    ["50 alternatives", { messages, logprobs: true, top_logprobs: 50 }, "top_logprobs"],
    ["a temperature of 5", { messages, temperature: 5 }, "temperature"],
    [
      "a forced tool that is not offered",
      { messages, tools, tool_choice: { type: "function", function: { name: "x" } } },
      "tool_choice",
    ],
  ])("with %s are rejected with 400 and never sent", async (_, body, param) => {
    upstream.requests.length = 0;
    const { status, json, text } = await client.post("/v1/chat/completions", { model: "text", ...body });
    expect(status, text).toBe(400);
    expect(json).toMatchObject({ error: { param: expect.stringContaining(param) } });
    expect(upstream.requests).toEqual([]);
  });
});
