import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { Role, ToolSchema } from "../../../../../gen/unified/inference/v1/chat_pb.js";
import type { GenerateRequest } from "../../../../../src/domain/engine/engine.js";
import type { MessagesFacts } from "../../../../../src/domain/engine/upstream.js";
import { messagesBody } from "../../../../../src/engines/openai/anthropic/messages-body.js";
import { chatRequest, completionRequest, userMessage } from "../../../../support/upstream/engine-calls.js";

const adaptive: MessagesFacts = {
  maxOutput: 64_000,
  thinking: "effort",
  efforts: ["low", "medium", "high", "max"],
  jsonSchema: true,
};
const older: MessagesFacts = { maxOutput: 32_000, thinking: "budget", efforts: [], jsonSchema: null };

function body(request: GenerateRequest, facts: MessagesFacts | null = null, passThrough: readonly string[] = []) {
  return JSON.parse(messagesBody(request, { model: "claude-x", facts, passThrough }));
}

type MessageInit = ReturnType<typeof userMessage>;

const said = (role: Role, text: string): MessageInit => ({ ...userMessage(text), role });
const image = (url: string) => ({ part: { case: "imageUrl", value: { url } } }) as const;
const called = (id: string, argumentsJson: string): MessageInit => ({
  role: Role.ASSISTANT,
  toolCalls: [{ id, function: { name: "get_weather", argumentsJson } }],
});
const result = (id: string, text: string): MessageInit => ({ ...userMessage(text), role: Role.TOOL, toolCallId: id });
const messagesOf = (messages: readonly MessageInit[]) => body(chatRequest({ messages })).messages;
/** The request with changes in its input. */
const withInput = (request: GenerateRequest, changes: object): GenerateRequest => ({
  ...request,
  input: { ...request.input, ...changes },
});

describe("bodies of requests to Anthropic's Messages API", () => {
  it("a plain request has the model, the messages, a token limit and streaming, and no other field", () => {
    expect(body(chatRequest())).toEqual({
      model: "claude-x",
      max_tokens: 8_192,
      messages: [{ role: "user", content: [{ type: "text", text: "Say hello in five words." }] }],
      stream: true,
    });
  });

  it("the limit of output tokens is the client's or, without one, the model's", () => {
    expect(body(chatRequest({ maxTokens: 5 }), older).max_tokens).toBe(5);
    expect(body(chatRequest(), older).max_tokens).toBe(32_000);
  });

  it("sampling options are sent in the API's range, and unsupported ones are left out", () => {
    const request = { temperature: 1.5, topP: 0.5, topK: 7, seed: 1n, minP: 0.1, stop: ["a", '"'] };
    expect(body(chatRequest(request))).toEqual({
      ...body(chatRequest()),
      temperature: 1,
      top_p: 0.5,
      top_k: 7,
      stop_sequences: ["a", '"'],
    });
  });

  it("system and developer messages become the system prompt at any position in the conversation", () => {
    const { system, messages } = body(
      chatRequest({
        messages: [
          said(Role.SYSTEM, "Be brief."),
          userMessage("a"),
          said(Role.DEVELOPER, "Be kind."),
          userMessage("b"),
        ],
      }),
    );
    expect(system).toBe("Be brief.\n\nBe kind.");
    expect(messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ]);
  });

  it("calls and their results keep their ids, and results come first in the next message of the user", () => {
    expect(
      messagesOf([
        userMessage("weather?"),
        called("call_1", '{"city": "Rome", "n": 1}'),
        result("call_1", "sunny"),
        userMessage("thanks"),
      ]).slice(1),
    ).toEqual([
      {
        role: "assistant",
        content: [{ type: "tool_use", id: "call_1", name: "get_weather", input: { city: "Rome", n: 1 } }],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: "sunny" },
          { type: "text", text: "thanks" },
        ],
      },
    ]);
  });

  it("ids and arguments that the API rejects are replaced in the same way in calls and results", () => {
    const [, call, answer] = messagesOf([
      userMessage("a"),
      called("functions.f:0", '{"cut'),
      result("functions.f:0", ""),
    ]);
    expect(call.content[0]).toMatchObject({ id: "functions_f_0", input: { invalid_json: '{"cut' } });
    expect(answer.content[0]).toMatchObject({ tool_use_id: "functions_f_0", content: "" });
  });

  it("text that the API rejects is left out: empty text, and spaces at the end of an answer to continue", () => {
    expect(
      messagesOf([userMessage("a"), said(Role.ASSISTANT, " "), userMessage("b"), said(Role.ASSISTANT, "Well, ")]),
    ).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
      { role: "assistant", content: [{ type: "text", text: "Well," }] },
    ]);
  });

  it("images are sent as base64 or as a URL", () => {
    const [{ content }] = messagesOf([
      { role: Role.USER, content: [image("data:image/PNG;base64,iVBORw0="), image("https://example.com/a.png")] },
    ]);
    expect(content).toEqual([
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0=" } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
    ]);
  });

  it.each([
    ["a text completion", () => body(completionRequest()), "unsupported", "prompt"],
    [
      "JSON mode without a schema",
      () => body(chatRequest({ format: { type: "json_object" } })),
      "unsupported",
      "response_format",
    ],
    ["a conversation without a message", () => messagesOf([said(Role.SYSTEM, "a")]), "bad_input", "messages"],
    [
      "an image that is not base64",
      () => messagesOf([{ role: Role.USER, content: [image("data:image/png,abc")] }]),
      "bad_input",
      "messages[0].content[0]",
    ],
    [
      "audio",
      () => messagesOf([{ role: Role.USER, content: [{ part: { case: "inputAudio", value: { data: "a" } } }] }]),
      "unsupported",
      "messages[0].content[0]",
    ],
  ])("%s is refused before it is sent", (_, send, code, param) => {
    expect(send).toThrow(expect.objectContaining({ code, param }));
  });

  it("tools are sent with their schemas unchanged", () => {
    const { tools, tool_choice } = body(chatRequest({ tool: { mode: "auto" } }));
    expect(tools).toEqual([
      { name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } },
    ]);
    expect(tool_choice).toBeUndefined();
  });

  it.each([
    [undefined, { type: "object", properties: {} }],
    ["{}", { type: "object", properties: {} }],
    [' {"properties":{}}', { type: "object", properties: {} }],
    ['{"type":"object","required":["a"]}', { type: "object", required: ["a"] }],
  ])("the parameters %j are sent as the schema %j", (parametersJson, schema) => {
    const tool = create(ToolSchema, {
      function: { name: "f", strict: true, ...(parametersJson && { parametersJson }) },
    });
    const sent = body(withInput(chatRequest({ tool: { mode: "auto" } }), { tools: [tool] }));
    expect(sent.tools).toEqual([{ name: "f", input_schema: schema, strict: true }]);
  });

  it.each([
    [{ mode: "required" }, true, { type: "any" }],
    [{ mode: "named", name: "get_weather" }, true, { type: "tool", name: "get_weather" }],
    [{ mode: "auto" }, false, { type: "auto", disable_parallel_tool_use: true }],
    [{ mode: "required" }, false, { type: "any", disable_parallel_tool_use: true }],
  ] as const)("the tool choice %j with parallel calls %j is sent as %j", (tool, parallelToolCalls, sent) => {
    expect(body(withInput(chatRequest({ tool }), { parallelToolCalls })).tool_choice).toEqual(sent);
  });

  it("the called tools are listed and forbidden if the request offers none", () => {
    const sent = body(chatRequest({ messages: [userMessage("a"), called("call_1", "{}"), result("call_1", "b")] }));
    expect(sent.tools).toEqual([{ name: "get_weather", input_schema: { type: "object", properties: {} } }]);
    expect(sent.tool_choice).toEqual({ type: "none" });
  });

  it("a schema is sent as the format of the answer", () => {
    const format = { type: "json_schema", name: "n", schemaJson: '{"type":"object"}', strict: true } as const;
    expect(body(chatRequest({ format, reasoningEffort: "high" }), adaptive).output_config).toEqual({
      effort: "high",
      format: { type: "json_schema", schema: { type: "object" } },
    });
  });

  it("of the labels only `user` is sent, and fields only if the deployment's pass_through lists them", () => {
    const passOn = {
      user: "u",
      store: true,
      fieldsJson: {
        cache_control: '{"type":"ephemeral"}',
        thinking: '{"type":"disabled"}',
        max_tokens: "1",
        other: "1",
      },
    };
    expect(
      body(chatRequest({ passOn, reasoningEffort: "low" }), null, ["cache_control", "thinking", "max_tokens"]),
    ).toEqual({
      ...body(chatRequest({ reasoningEffort: "low" })),
      thinking: { type: "disabled" },
      cache_control: { type: "ephemeral" },
      metadata: { user_id: "u" },
    });
  });
});

describe("thinking of Anthropic's models by reasoning_effort", () => {
  const sent = (changes: Parameters<typeof chatRequest>[0], facts: MessagesFacts | null = null) => {
    const { thinking, max_tokens, output_config } = body(chatRequest(changes), facts);
    return { thinking, max_tokens, effort: output_config?.effort };
  };
  const budget = (budget_tokens: number) => ({ type: "enabled", budget_tokens });

  it.each([
    ["minimal", 1_024],
    ["low", 2_048],
    ["medium", 8_192],
    ["high", 16_384],
    ["xhigh", 32_768],
    ["max", 65_536],
  ])("the effort %s becomes a budget of %i tokens in addition to the answer's tokens", (reasoningEffort, tokens) => {
    expect(sent({ reasoningEffort })).toEqual({ thinking: budget(tokens), max_tokens: 8_192 + tokens });
  });

  it("has a budget that leaves tokens for the answer, or no budget", () => {
    expect(sent({ reasoningEffort: "high", maxTokens: 4_000 }).thinking).toEqual(budget(2_976));
    expect(sent({ reasoningEffort: "high", maxTokens: 2_047 })).toEqual({ max_tokens: 2_047 });
    expect(sent({ reasoningEffort: "max" }, older)).toEqual({ thinking: budget(30_976), max_tokens: 32_000 });
  });

  it.each([
    ["minimal", "low"],
    ["medium", "medium"],
    ["xhigh", "high"],
    ["max", "max"],
  ])("for a model with effort levels, %s is sent as %s", (reasoningEffort, effort) => {
    const thinking = { type: "adaptive", display: "summarized" };
    expect(sent({ reasoningEffort }, adaptive)).toEqual({ thinking, max_tokens: 64_000, effort });
  });

  it("is turned off with `none` if the model thinks by default", () => {
    expect(sent({ reasoningEffort: "none" }, adaptive).thinking).toEqual({ type: "disabled" });
    expect(sent({ reasoningEffort: "none" }, older).thinking).toBeUndefined();
    expect(sent({ reasoningEffort: "high" }, { ...older, thinking: "none" }).thinking).toBeUndefined();
  });

  it("is left out where the API rejects it: with a forced call, and a budget after results of tools", () => {
    const messages = [userMessage("a"), called("call_1", "{}"), result("call_1", "b")];
    const reasoningEffort = "low";
    expect(sent({ reasoningEffort, tool: { mode: "required" } }, adaptive).thinking).toBeUndefined();
    expect(sent({ reasoningEffort, messages }, older).thinking).toBeUndefined();
    expect(sent({ reasoningEffort, messages }, adaptive).thinking).toMatchObject({ type: "adaptive" });
  });

  it("removes sampling options that the API rejects together with it", () => {
    const options = { temperature: 0.5, topK: 3 };
    expect(body(chatRequest({ ...options, reasoningEffort: "low" }))).not.toHaveProperty("temperature");
    expect(body(chatRequest({ ...options, reasoningEffort: "low" }))).not.toHaveProperty("top_k");
    expect(body(chatRequest(options))).toMatchObject({ temperature: 0.5, top_k: 3 });
  });
});
