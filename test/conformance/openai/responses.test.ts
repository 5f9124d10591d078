import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, type Reply } from "./api.js";

const weather = { type: "function", name: "weather", strict: false, parameters: { type: "object" } } as const;
const scripted = (id: string, options: object) => ({ id, engine: "scripted", scripted: options });
const models = [
  scripted("test-chat", { text: "Par is" }),
  scripted("echo", {}),
  scripted("calls", { tool_calls: [{ name: "weather", arguments: '{"city": "Oslo"}' }, { name: "weather" }] }),
  scripted("small", { tokens: 100, context_length: 10 }),
  scripted("breaks", { text: "Par is more", token_delay_ms: 1, fail: { after_tokens: 2, code: "upstream_error" } }),
  scripted("rejects", {
    text: "Par is",
    token_delay_ms: 1,
    fail: { after_tokens: 1, code: "context_length_exceeded" },
  }),
];

describe("/v1/responses", () => {
  let service: RunningService;
  let api: Api;
  let client: OpenAI;

  beforeAll(async () => {
    service = await startService({ config: { models } });
    api = createApi(service);
    client = new OpenAI({ apiKey: service.key, baseURL: service.api, maxRetries: 0 });
  });
  afterAll(() => service.close());

  /** The events of a stream; also checks its form. */
  const streamed = async (fields: object) => {
    const { text, headers } = await api.response({ stream: true, ...fields });
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const blocks = text.split("\n\n");
    expect(blocks.pop()).toBe("");
    return blocks.map((block, number) => {
      const [event = "", data = "", ...more] = block.split("\n");
      const parsed = JSON.parse(data.slice("data: ".length));
      expect({ event, number: parsed.sequence_number, more }).toEqual({
        event: `event: ${parsed.type}`,
        number,
        more: [],
      });
      return parsed;
    });
  };
  const typesOf = (events: readonly { type: string }[]) => events.map(({ type }) => type.replace("response.", ""));

  it("a whole response has an id, its usage and the headers of every answer (RSP-4, RSP-5, HDR-1)", async () => {
    const { status, json, headers } = await api.response({ instructions: "Be brief.", metadata: { a: "b" } });
    expect(status).toBe(200);
    expect(json.id).toMatch(/^resp_[A-Za-z0-9]{24}$/);
    expect(headers.get("x-uis-deployment")).not.toBeNull();
    expect(json).toMatchObject({
      object: "response",
      status: "completed",
      instructions: "Be brief.",
      metadata: { a: "b" },
      model: "test-chat",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Par is" }] }],
      usage: { output_tokens: 2, total_tokens: json.usage.input_tokens + 2 },
    });
    expect(Math.abs(json.created_at - Date.now() / 1_000)).toBeLessThan(60);
  });

  it("a streamed text has the whole sequence of events, and its end equals the whole response (RSP-6, RSP-7, STRM-18)", async () => {
    const events = await streamed({ temperature: 0 });
    expect(typesOf(events)).toEqual([
      ...["created", "in_progress", "output_item.added", "content_part.added"],
      ...["output_text.delta", "output_text.delta"],
      ...["output_text.done", "content_part.done", "output_item.done", "completed"],
    ]);
    const { json } = await api.response({ temperature: 0 });
    const same = (response: { id: string }) =>
      JSON.parse(JSON.stringify({ ...response, created_at: 0 }).replaceAll(response.id.slice("resp_".length), ""));
    expect(same(events.at(-1).response)).toEqual(same(json));
  });

  it("each call is an item with its own sequence of events (RSP-8, RSP-12)", async () => {
    const events = await streamed({ model: "calls", tools: [weather] });
    const call = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done"];
    const types = typesOf(events).filter((type, i, all) => type !== all[i - 1]);
    expect(types).toEqual([
      ...["created", "in_progress", ...call, "output_item.done", ...call, "output_item.done", "completed"],
    ]);
    const { output } = events.at(-1).response;
    expect(output.map(({ name, arguments: args }: Record<string, string>) => `${name}(${args})`)).toEqual([
      'weather({"city": "Oslo"})',
      "weather({})",
    ]);
    expect(new Set(output.flatMap(({ id, call_id }: Record<string, string>) => [id, call_id])).size).toBe(4);
  });

  it("an answer of the maximum length is incomplete, streamed or not (RSP-10)", async () => {
    const cut = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
    expect((await api.response({ max_output_tokens: 1 })).json).toMatchObject({ ...cut, max_output_tokens: 1 });
    const last = (await streamed({ max_output_tokens: 1 })).at(-1);
    expect(last).toMatchObject({ type: "response.incomplete", response: cut });
  });

  it("a fault in the middle of a stream is one error event, and a late rejection is a failed response (RSP-10)", async () => {
    const faulty = await streamed({ model: "breaks" });
    expect(faulty.at(-2).type).toBe("response.output_text.delta");
    expect(faulty.at(-1)).toMatchObject({
      ...{ type: "error", code: "upstream_error", param: null },
      error: { type: "server_error", code: "upstream_error" },
    });
    const rejected = await streamed({ model: "rejects" });
    expect(rejected.at(-1)).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "context_length_exceeded" } },
    });
    expectError(await api.response({ model: "breaks" }), 502, "upstream_error");
  });

  it("errors of the core name the fields of the Responses API (RSP-1, GEN-12)", async () => {
    const refused: [object, Parameters<typeof expectError>[2], string][] = [
      [{ temperature: 3 }, "decimal_above_max_value", "temperature"],
      [{ max_output_tokens: 0 }, "integer_below_min_value", "max_output_tokens"],
      [{ reasoning: { effort: "huge" } }, "invalid_value", "reasoning.effort"],
      [{ text: { verbosity: "loud" } }, "invalid_value", "text.verbosity"],
      [{ tools: [{ type: "web_search" }, { ...weather, name: "no name" }] }, "invalid_value", "tools[1].name"],
      [{ tools: [weather], tool_choice: { type: "function", name: "f" } }, "invalid_value", "tool_choice"],
      [{ model: "small", input: "word ".repeat(11).trim() }, "context_length_exceeded", "input"],
    ];
    for (const [fields, code, param] of refused) {
      const reply: Reply = await api.response(fields);
      expectError(reply, 400, code, param);
      expect(reply.json.error.message).not.toMatch(/messages|max_completion_tokens|reasoning_effort|function\./);
    }
    expectError(await api.response({ model: "nowhere" }), 404, "model_not_found", "model");
  });

  it("a request of Codex is served, and its unsupported tools are omitted from the answer (RSP-3)", async () => {
    const { status, json } = await api.response({
      ...{ instructions: "You are an agent.", store: false, parallel_tool_calls: false, client_metadata: { a: "b" } },
      ...{ include: ["reasoning.encrypted_content"], prompt_cache_key: "k", reasoning: { effort: "low" } },
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }],
      tools: [weather, { type: "namespace", name: "n", tools: [] }, { type: "web_search" }],
      tool_choice: "auto",
    });
    expect([status, json.tools]).toEqual([200, [{ ...weather, description: null }]]);
  });

  it("a stream has no end marker after its last event, and an unknown field has no effect (RSP-6, DEC-9)", async () => {
    const { text } = await api.response({ stream: true, whatever: 1 });
    expect(text).not.toContain("[DONE]");
    expect(service.logs.some(({ field, path }) => field === "whatever" && path === "/v1/responses")).toBe(true);
  });

  describe("with npm openai", () => {
    it("answers, and continues after the output of a call (RSP-2, RSP-5)", async () => {
      const first = await client.responses.create({ model: "calls", input: "Weather?", tools: [weather] });
      const calls = first.output.filter((item) => item.type === "function_call");
      const outputs = calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "5" }));
      const next = await client.responses.create({
        model: "echo",
        input: [
          { role: "user", content: "Weather?" },
          ...(first.output as ResponseInputItem[]),
          ...outputs,
          { role: "user", content: "And?" },
        ],
      });
      expect(next.output_text).toBe("And?");
    });

    it("builds the same response from a stream, and raises the error of a fault (RSP-7, RSP-8, RSP-9, RSP-10)", async () => {
      const text = client.responses.stream({ model: "test-chat", input: "Hi" });
      const deltas: string[] = [];
      text.on("response.output_text.delta", ({ delta }) => deltas.push(delta));
      expect((await text.finalResponse()).output_text).toBe(deltas.join(""));
      const called = await client.responses.stream({ model: "calls", input: "Hi", tools: [weather] }).finalResponse();
      expect(called.output).toMatchObject([{ name: "weather", arguments: '{"city": "Oslo"}' }, { arguments: "{}" }]);
      const faulty = client.responses.stream({ model: "breaks", input: "Hi" }).finalResponse();
      await expect(faulty).rejects.toMatchObject({ code: "upstream_error" });
    });

    it("parses structured output (RSP-1, RF-3)", async () => {
      const format = zodTextFormat(z.object({ a: z.number() }), "answer");
      const response = await client.responses.parse({ model: "echo", input: '{"a": 1}', text: { format } });
      expect(response.output_parsed).toEqual({ a: 1 });
    });

    it("gets log probabilities when it includes them (RSP-1)", async () => {
      const include = ["message.output_text.logprobs" as const];
      const { output } = await client.responses.create({ model: "test-chat", input: "Hi", include, top_logprobs: 1 });
      const [item] = output;
      const part = item?.type === "message" ? item.content[0] : undefined;
      const logprobs = part?.type === "output_text" ? (part.logprobs ?? []) : [];
      expect(logprobs.map(({ token, top_logprobs: top }) => [token, top.length])).toEqual([
        ["Par", 1],
        [" is", 1],
      ]);
    });
  });
});
