import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, user } from "./api.js";

const weather = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const clock = { type: "function", function: { name: "clock" } };

describe("documents of /v1, byte by byte", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script." } },
          { id: "echo", engine: "scripted", scripted: {} },
          {
            id: "tools",
            engine: "scripted",
            scripted: {
              text: "No call.",
              tool_calls: [{ name: "weather", arguments: { city: "Oslo in Norway" } }, { name: "clock" }],
            },
          },
          { id: "filtered", engine: "scripted", scripted: { finish_reason: "content_filter" } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it("a chat completion has exactly these bytes (RESP-1, RESP-2, RESP-3, RESP-4, RESP-7, RESP-10, RESP-13, PROTO-1)", async () => {
    const before = Math.floor(Date.now() / 1000);
    const { status, json } = await api.chat();
    expect(status).toBe(200);
    expect(json).toEqual({
      id: expect.stringMatching(/^chatcmpl-[A-Za-z0-9]{24,}$/),
      object: "chat.completion",
      created: expect.any(Number),
      model: "test-chat",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hello from the script.", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: {
        prompt_tokens: 1,
        completion_tokens: 4,
        total_tokens: 5,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
      system_fingerprint: expect.stringMatching(/^fp_/),
    });
    expect(Number.isInteger(json.created)).toBe(true);
    expect(json.created).toBeGreaterThanOrEqual(before);
    expect(json.created).toBeLessThan(before + 60);
  });

  it("the headers of a chat completion contain the type, the organization and the duration (RESP-14, HDR-1, HDR-2, HDR-3, HDR-6)", async () => {
    const { headers, text } = await api.chat();
    expect(headers.get("content-type")).toBe("application/json");
    expect(headers.get("content-length")).toBe(String(Buffer.byteLength(text)));
    expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    expect(headers.get("openai-processing-ms")).toMatch(/^\d+$/);
    expect(headers.get("openai-version")).toBe("2020-10-01");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("strict-transport-security")).toBeNull();
    expect(headers.get("set-cookie")).toBeNull();
    expect(headers.get("content-encoding")).toBeNull();
  });

  it("all responses have different ids, and so have all requests (RESP-15, HDR-1)", async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, () => api.chat()));
    expect(new Set(replies.map(({ json }) => json.id)).size).toBe(50);
    expect(new Set(replies.map(({ headers }) => headers.get("x-request-id"))).size).toBe(50);
  });

  it("the fingerprint is equal for equal models and differs for different ones (RESP-11)", async () => {
    const fingerprint = async (model: string) => (await api.chat({ model })).json.system_fingerprint;
    expect(await fingerprint("test-chat")).toBe(await fingerprint("test-chat"));
    expect(await fingerprint("test-chat")).not.toBe(await fingerprint("echo"));
  });

  it("calls have arguments as text, a type and their own ids (RESP-5, RESP-6, TOOL-3, TOOL-10, TOOL-11, TOOL-12, TOOL-13, DEC-8)", async () => {
    const { json } = await api.chat({ model: "tools", tools: [weather, clock] });
    const [choice] = json.choices;
    expect(choice.finish_reason).toBe("tool_calls");
    expect(choice.message).toEqual({
      role: "assistant",
      content: null,
      refusal: null,
      tool_calls: [
        {
          id: expect.stringMatching(/^call_[A-Za-z0-9]{24}$/),
          type: "function",
          function: { name: "weather", arguments: '{"city":"Oslo in Norway"}' },
        },
        {
          id: expect.stringMatching(/^call_[A-Za-z0-9]{24}$/),
          type: "function",
          function: { name: "clock", arguments: "{}" },
        },
      ],
    });
    expect(choice.message.tool_calls[0].id).not.toBe(choice.message.tool_calls[1].id);
  });

  it("without tools, and with the choice none, there is no call and no key for calls (RESP-6, TOOL-3, TOOL-4)", async () => {
    for (const fields of [{}, { tools: [weather], tool_choice: "none" }, { tools: [] }, { tools: null }]) {
      const { json } = await api.chat({ model: "tools", ...fields });
      expect(json.choices[0].message).toEqual({ role: "assistant", content: "No call.", refusal: null });
      expect(json.choices[0].finish_reason).toBe("stop");
    }
  });

  it("an answer that is truncated inside a call finishes with length and the partial call (TOOL-15)", async () => {
    const { json } = await api.chat({ model: "tools", tools: [weather], max_tokens: 1 });
    expect(json.choices[0].finish_reason).toBe("length");
    expect(json.choices[0].message.tool_calls[0].function).toEqual({ name: "weather", arguments: '{"city":"Oslo' });
  });

  it("a forced function also finishes with tool_calls (DEC-8)", async () => {
    const { json } = await api.chat({
      model: "tools",
      tools: [weather, clock],
      tool_choice: { type: "function", function: { name: "clock" } },
    });
    expect(json.choices[0].finish_reason).toBe("tool_calls");
    expect(json.choices[0].message.tool_calls).toHaveLength(1);
  });

  it("n choices are in order; usage counts the prompt once and all completions (CHAT-3, RESP-3, RESP-8)", async () => {
    const { json } = await api.chat({ n: 3, messages: [{ role: "user", content: "one two three" }] });
    expect(json.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
    expect(json.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 12, total_tokens: 15 });
  });

  it("the finish reason names why the answer ended (RESP-7)", async () => {
    const reasonOf = async (fields: object) => (await api.chat(fields)).json.choices[0].finish_reason;
    expect(await reasonOf({})).toBe("stop");
    expect(await reasonOf({ stop: "from" })).toBe("stop");
    expect(await reasonOf({ max_tokens: 2 })).toBe("length");
    expect(await reasonOf({ model: "filtered" })).toBe("content_filter");
  });

  it("log probabilities have every key for every token (CHAT-12, RESP-9)", async () => {
    const { json } = await api.chat({ logprobs: true, top_logprobs: 2 });
    const { content, refusal } = json.choices[0].logprobs;
    expect(refusal).toBeNull();
    expect(content).toHaveLength(4);
    for (const entry of content) {
      expect(Object.keys(entry)).toEqual(["token", "logprob", "bytes", "top_logprobs"]);
      expect(Buffer.from(entry.bytes).toString()).toBe(entry.token);
      expect(entry.top_logprobs).toHaveLength(2);
      expect(Number.isFinite(entry.logprob)).toBe(true);
    }
    expect((await api.chat({ logprobs: true })).json.choices[0].logprobs.content[0].top_logprobs).toEqual([]);
    expect((await api.chat({ logprobs: false })).json.choices[0].logprobs).toBeNull();
  });

  it("the answer contains a service tier only if the request did (CHAT-23)", async () => {
    expect((await api.chat({ service_tier: "flex" })).json.service_tier).toBe("default");
    expect((await api.chat({ service_tier: null })).json).not.toHaveProperty("service_tier");
    expect((await api.chat()).json).not.toHaveProperty("service_tier");
  });

  it("parts of a message are joined in order without a separator, for every role (MSG-2, MSG-10)", async () => {
    const parts = [
      { type: "text", text: "a" },
      { type: "text", text: "b c" },
    ];
    const messages = ["system", "developer", "user", "system", "assistant", "user"].map((role) => ({
      role,
      content: parts,
    }));
    const { json } = await api.chat({ model: "echo", messages });
    expect(json.choices[0].message.content).toBe("ab c");
  });

  it("the same seed gives the same text, streamed or not (CHAT-9, STRM-18)", async () => {
    const fields = { seed: 2 ** 60, temperature: 0 };
    const first = await api.chat(fields);
    const again = await api.chat(fields);
    expect(again.json.choices).toEqual(first.json.choices);
  });

  it("an answer with calls can be sent back with its results, even if the arguments are not JSON (MSG-6, MSG-8)", async () => {
    const id = "c".repeat(256);
    const messages = [
      user,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id, type: "function", function: { name: "f", arguments: "{no json" } }],
      },
      { role: "tool", tool_call_id: id, content: [{ type: "text", text: "42" }] },
      { role: "user", content: "And now?" },
    ];
    const { json } = await api.chat({ model: "echo", messages });
    expect(json.choices[0].message.content).toBe("And now?");
  });
});
