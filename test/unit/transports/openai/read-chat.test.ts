import { describe, expect, it } from "vitest";
import { ToolChoice_Mode as Mode, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";
import { chatFields, readChat } from "../../../../src/transports/openai/read-chat.js";
import { expectRefusal } from "./refusal.js";

const user = { role: "user", content: "Hi" };
const readText = (text: string) => readChat(parseJsonBody(Buffer.from(text), defaultLimits));
const read = (fields: object) => readText(JSON.stringify({ model: "m", messages: [user], ...fields }));
const readMessage = (message: object) => read({ messages: [message] }).params.messages[0];
const tool = { type: "function", function: { name: "f" } };

describe("chat request", () => {
  it("may have null in every optional field (GEN-7)", () => {
    const nulls = Object.fromEntries([...chatFields].map((name) => [name, null]));
    expect(read({ ...nulls, model: "m", messages: [user] })).toEqual(read({}));
  });

  it("keeps unknown fields for upstream servers, and they change nothing else (PROTO-2)", () => {
    const { params, ...streaming } = read({ whatever: { a: 1 }, frequency: "often" });
    expect(params.passThroughJson).toEqual({ whatever: '{"a":1}', frequency: '"often"' });
    expect({ params: { ...params, passThroughJson: {} }, ...streaming }).toEqual(read({}));
  });

  it("is translated with every field of the protobuf message", () => {
    const { params, stream, includeUsage } = read({
      temperature: 0.5,
      top_p: 0.9,
      n: 2,
      max_tokens: 10,
      max_completion_tokens: 20,
      stop: ["a", "b"],
      seed: 7,
      frequency_penalty: -1,
      presence_penalty: 1,
      logit_bias: { "50256": -100 },
      logprobs: true,
      top_logprobs: 3,
      parallel_tool_calls: false,
      user: "u",
      safety_identifier: "s",
      prompt_cache_key: "k",
      metadata: { a: "b" },
      store: true,
      service_tier: "flex",
      reasoning_effort: "low",
      verbosity: "high",
      modalities: ["text"],
      top_k: 40,
      min_p: 0.1,
      repetition_penalty: 1.1,
      chat_template_kwargs: { enable_thinking: false },
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
    });
    expect({ stream, includeUsage }).toEqual({ stream: true, includeUsage: true });
    expect(params).toMatchObject({
      model: "m",
      temperature: 0.5,
      topP: 0.9,
      n: 2,
      maxTokens: 10,
      maxCompletionTokens: 20,
      stop: ["a", "b"],
      seed: 7n,
      frequencyPenalty: -1,
      presencePenalty: 1,
      logitBias: { "50256": -100 },
      logprobs: true,
      topLogprobs: 3,
      parallelToolCalls: false,
      user: "u",
      safetyIdentifier: "s",
      promptCacheKey: "k",
      metadata: { a: "b" },
      store: true,
      serviceTier: "flex",
      reasoningEffort: "low",
      verbosity: "high",
      modalities: ["text"],
      topK: 40,
      minP: 0.1,
      repetitionPenalty: 1.1,
      chatTemplateKwargsJson: '{"enable_thinking":false}',
    });
  });

  it("keeps absent fields absent and present fields present, including zeros (PROTO-3)", () => {
    expect(read({}).params.temperature).toBeUndefined();
    expect(read({ temperature: 0, n: 0, logprobs: false, user: "" }).params).toMatchObject({
      temperature: 0,
      n: 0,
      logprobs: false,
      user: "",
    });
  });

  it.each([
    ["temperature", "0.5"],
    ["n", "1"],
    ["n", 1.5],
    ["max_tokens", true],
    ["stream", "true"],
    ["stream", 1],
    ["stream_options", []],
    ["logprobs", 1],
    ["stop", 5],
    ["stop", { a: 1 }],
    ["seed", "7"],
    ["seed", 1.5],
    ["logit_bias", []],
    ["logit_bias", { "1": "2" }],
    ["metadata", { a: 1 }],
    ["user", 5],
    ["tools", {}],
    ["tool_choice", 1],
    ["tool_choice", []],
    ["response_format", "json"],
    ["messages", "Hi"],
    ["chat_template_kwargs", "{}"],
    ["modalities", "text"],
  ])("is refused if %s is %j (GEN-8)", (field, value) => {
    expectRefusal(() => read({ [field]: value }), "invalid_type", field);
  });

  it("may have a float without fraction as integer (GEN-8)", () => {
    expect(readText('{"model":"m","messages":[],"n":5.0,"top_k":4e1}').params).toMatchObject({ n: 5, topK: 40 });
  });

  it.each([
    ["n", "1e400", "integer_above_max_value"],
    ["n", "2147483648", "integer_above_max_value"],
    ["max_tokens", "1e308", "integer_above_max_value"],
    ["max_tokens", "-2147483649", "integer_below_min_value"],
    ["top_k", "-1e400", "integer_below_min_value"],
  ] as const)("%s of %s exceeds 32 bits and is rejected (SEC-8)", (field, number, code) => {
    expectRefusal(() => readText(`{"model":"m","messages":[],"${field}":${number}}`), code, field);
  });

  it("may have a seed of any size, which always results in the same 64 bits (GEN-14)", () => {
    const seed = (number: string) => readText(`{"model":"m","messages":[],"seed":${number}}`).params.seed;
    expect(seed("-5")).toBe(-5n);
    expect(seed("9007199254740993")).toBe(seed("9007199254740993"));
    for (const wide of ["9223372036854775807", "9223372036854775808", "18446744073709551617", "-1e30", "1e300"]) {
      expect(seed(wide)).toBe(BigInt.asIntN(64, BigInt(Number(wide))));
    }
  });

  it.each([
    ["model", { model: null }],
    ["messages", { messages: null }],
    ["messages[0].role", { messages: [{ content: "Hi" }] }],
    ["tools[0].type", { tools: [{ function: { name: "f" } }] }],
    ["tools[1].function.name", { tools: [tool, { type: "function", function: {} }] }],
    ["tools[0].function", { tools: [{ type: "function" }] }],
    ["tool_choice.function.name", { tool_choice: { type: "function", function: {} } }],
    ["response_format.type", { response_format: {} }],
    ["response_format.json_schema", { response_format: { type: "json_schema" } }],
    ["response_format.json_schema.name", { response_format: { type: "json_schema", json_schema: { schema: {} } } }],
    [
      "messages[0].content[1].text",
      { messages: [{ role: "user", content: [{ type: "text", text: "" }, { type: "text" }] }] },
    ],
    ["messages[0].tool_calls[0].id", { messages: [{ role: "assistant", tool_calls: [{ type: "function" }] }] }],
  ])("is refused with the path %s of a missing field (GEN-12)", (param, fields) => {
    expectRefusal(() => read(fields), "missing_required_parameter", param);
  });

  it.each([
    ["messages[1].role", { messages: [user, { role: "robot", content: "" }] }, "'developer'"],
    ["messages[0].content[0].type", { messages: [{ role: "user", content: [{ type: "video" }] }] }, "'image_url'"],
    ["tools[0].type", { tools: [{ type: "retrieval" }] }, "'function'"],
    ["tool_choice", { tool_choice: "always" }, "'required'"],
    ["tool_choice.type", { tool_choice: { type: "any" } }, "'allowed_tools'"],
    [
      "tool_choice.allowed_tools.mode",
      { tool_choice: { type: "allowed_tools", allowed_tools: { mode: "none", tools: [] } } },
      "'auto'",
    ],
    [
      "tool_choice.allowed_tools.tools[0].type",
      { tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [{ ...tool, type: "any" }] } } },
      "'function'",
    ],
    [
      "messages[0].tool_calls[0].type",
      { messages: [{ role: "assistant", tool_calls: [{ type: "any" }] }] },
      "'function'",
    ],
    ["response_format.type", { response_format: { type: "xml" } }, "'json_schema'"],
    ["modalities[0]", { modalities: ["smell"] }, "'text'"],
  ])("is refused with the valid values for an unknown value at %s (GEN-10)", (param, fields, supported) => {
    expect(expectRefusal(() => read(fields), "invalid_value", param).message).toContain(supported);
  });

  it.each(["functions", "function_call"])("is refused for %s with the name of its replacement (CHAT-16)", (field) => {
    expect(expectRefusal(() => read({ [field]: [] }), "unsupported_parameter", field).message).toContain("tools");
  });

  it.each(["web_search_options", "moderation"])("is refused for %s (CHAT-27)", (field) => {
    expectRefusal(() => read({ [field]: {} }), "unsupported_parameter", field);
  });

  it("is refused for every field that requests audio (CHAT-26)", () => {
    expectRefusal(() => read({ modalities: ["text", "audio"] }), "unsupported_value", "modalities");
    expectRefusal(() => read({ audio: { voice: "alloy" } }), "unsupported_value", "audio");
  });

  it("may have one stop sequence as a text, and an empty list is none (CHAT-7)", () => {
    expect(read({ stop: "x" }).params.stop).toEqual(["x"]);
    expect(read({ stop: [] }).params.stop).toEqual([]);
  });

  it("keeps the source text of schemas (PROTO-4)", () => {
    const schema = '{"type": "object", "maximum":9007199254740993, "2":{},"1":{}}';
    const { params } = readText(
      `{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}],` +
        `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":${schema}}}}`,
    );
    expect(params.tools[0]?.function?.parametersJson).toBe(schema);
    expect(params.responseFormat?.format).toMatchObject({ case: "jsonSchema", value: { schemaJson: schema } });
  });

  it("with json_object and a schema is read as json_schema (RF-7)", () => {
    const { params } = read({ response_format: { type: "json_object", schema: { type: "object" } } });
    expect(params.responseFormat?.format).toMatchObject({
      case: "jsonSchema",
      value: { schemaJson: '{"type":"object"}' },
    });
  });

  it.each([
    ["none", { case: "mode", value: Mode.NONE }],
    ["auto", { case: "mode", value: Mode.AUTO }],
    ["required", { case: "mode", value: Mode.REQUIRED }],
    [tool, { case: "function", value: "f" }],
    [
      { type: "allowed_tools", allowed_tools: { mode: "required", tools: [tool] } },
      { case: "allowed", value: { mode: Mode.REQUIRED, names: ["f"] } },
    ],
  ])("may have the tool_choice %j (DEC-5)", (choice, expected) => {
    expect(read({ tools: [tool], tool_choice: choice }).params.toolChoice?.choice).toMatchObject(expected);
  });

  it("is refused for custom tools, choices and calls, which the error names (TOOL-7)", () => {
    const custom = { type: "custom", custom: { name: "c" } };
    expectRefusal(() => read({ tools: [custom] }), "unsupported_value", "tools[0].type");
    expectRefusal(() => read({ tool_choice: custom }), "unsupported_value", "tool_choice.type");
    const calls = [{ id: "c", type: "custom" }];
    expectRefusal(
      () => read({ messages: [{ role: "assistant", tool_calls: calls }] }),
      "unsupported_value",
      "messages[0].tool_calls[0].type",
    );
  });
});

describe("messages of a chat request", () => {
  it.each([
    ["developer", Role.DEVELOPER],
    ["system", Role.SYSTEM],
    ["user", Role.USER],
    ["assistant", Role.ASSISTANT],
    ["tool", Role.TOOL],
    ["function", Role.FUNCTION],
  ])("may have the role %s (MSG-1, DEC-4)", (role, expected) => {
    expect(readMessage({ role, content: "x" })?.role).toBe(expected);
  });

  it("have one part for a text, even an empty one, and are refused with an empty list (MSG-2)", () => {
    expect(readMessage({ role: "user", content: "" })?.content).toMatchObject([{ part: { case: "text", value: "" } }]);
    expectRefusal(() => readMessage({ role: "user", content: [] }), "empty_array", "messages[0].content");
  });

  it("may have all types of parts (MSG-3)", () => {
    const content = [
      { type: "text", text: "a", prompt_cache_breakpoint: true },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==", detail: "low" } },
      { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
      { type: "file", file: { filename: "f", file_data: "AA==", file_id: null } },
      { type: "refusal", refusal: "no" },
    ];
    expect(readMessage({ role: "assistant", content })?.content).toMatchObject([
      { part: { case: "text", value: "a" } },
      { part: { case: "imageUrl", value: { url: "data:image/png;base64,AA==", detail: "low" } } },
      { part: { case: "inputAudio", value: { data: "AA==", format: "wav" } } },
      { part: { case: "file", value: { filename: "f", fileData: "AA==" } } },
      { part: { case: "refusal", value: "no" } },
    ]);
  });

  it("may have calls without content, whose arguments stay unchanged text (MSG-5, MSG-6)", () => {
    const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{not json" } };
    expect(readMessage({ role: "assistant", content: null, tool_calls: [call] })).toMatchObject({
      content: [],
      toolCalls: [{ id: "call_1", function: { name: "f", argumentsJson: "{not json" } }],
    });
  });

  it("are refused if the arguments of a call are not text (TOOL-10)", () => {
    const call = { id: "call_1", type: "function", function: { name: "f", arguments: {} } };
    expectRefusal(
      () => readMessage({ role: "assistant", tool_calls: [call] }),
      "invalid_type",
      "messages[0].tool_calls[0].function.arguments",
    );
  });

  it("may have a legacy function call and its result, which become a tool call and its result (MSG-5)", () => {
    const { messages } = read({
      messages: [
        { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
        { role: "function", name: "f", content: "42" },
      ],
    }).params;
    const id = messages[0]?.toolCalls[0]?.id;
    expect(id).toBeTruthy();
    expect(messages[1]).toMatchObject({ role: Role.TOOL, toolCallId: id });
  });

  it("may be an earlier answer that an SDK sends back unchanged (MSG-12)", () => {
    const answer = {
      role: "assistant",
      content: "Hi",
      refusal: null,
      annotations: [],
      audio: null,
      reasoning_content: "thinking",
      reasoning: "thinking",
      tool_calls: null,
      function_call: null,
    };
    expect(readMessage(answer)?.content).toMatchObject([{ part: { case: "text", value: "Hi" } }]);
    expect(readMessage({ role: "assistant", content: null, refusal: "no" })?.content).toMatchObject([
      { part: { case: "refusal", value: "no" } },
    ]);
  });
});
