import { afterAll, beforeAll, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import type { RunningService } from "../../support/start-service.js";
import { type Api, createApi, expectError, user } from "./api.js";

const tool = (name: string, parameters?: object) => ({ type: "function", function: { name, parameters } });

/**
 * One row per field of a chat request: accepted values, and rejected ones with their error. Every field accepts null
 * (GEN-7).
 */
interface Row {
  readonly rules: string;
  readonly field: string;
  readonly good: readonly unknown[];
  readonly bad: readonly (readonly [value: unknown, code: ErrorCode, param?: string])[];
  /** Other fields that the values require. */
  readonly beside?: object;
}

const repeated = (text: string, count: number) => text.repeat(count);
const wrongTypes = (...values: unknown[]) => values.map((value) => [value, "invalid_type"] as const);

const rows: readonly Row[] = [
  {
    rules: "CHAT-1",
    field: "temperature",
    good: [0, 1, 2, 0.5],
    bad: [[-0.01, "decimal_below_min_value"], [2.01, "decimal_above_max_value"], ...wrongTypes("1", true, [], {})],
  },
  {
    rules: "CHAT-2",
    field: "top_p",
    good: [0, 0.5, 1],
    bad: [[-0.1, "decimal_below_min_value"], [1.1, "decimal_above_max_value"], ...wrongTypes("1")],
  },
  {
    rules: "CHAT-3, DEC-6, SEC-8",
    field: "n",
    good: [1, 2.0, 16],
    bad: [
      [0, "integer_below_min_value"],
      [-1, "integer_below_min_value"],
      [17, "integer_above_max_value"],
      [2 ** 31, "integer_above_max_value"],
      ...wrongTypes(1.5, "1"),
    ],
  },
  {
    rules: "CHAT-4, SEC-8",
    field: "max_tokens",
    good: [1, 100_000, 2 ** 31 - 1],
    bad: [
      [0, "integer_below_min_value"],
      [2 ** 31, "integer_above_max_value"],
      [1e308, "integer_above_max_value"],
      ...wrongTypes("5", 0.5),
    ],
  },
  {
    rules: "CHAT-5, SEC-8",
    field: "max_completion_tokens",
    good: [1, 2 ** 31 - 1],
    bad: [[0, "integer_below_min_value"], [-(2 ** 40), "integer_below_min_value"], ...wrongTypes(true)],
  },
  {
    rules: "CHAT-7",
    field: "stop",
    good: ["x", "", [], [""], ["a", "b", "c", "d"], repeated("x", 256), ["", "a", "b", "c", "d"]],
    bad: [
      [["a", "b", "c", "d", "e"], "array_above_max_length"],
      [repeated("x", 257), "string_above_max_length"],
      ...wrongTypes(5, {}),
      [[1], "invalid_type", "stop[0]"],
      [["a", null], "invalid_type", "stop[1]"],
    ],
  },
  {
    rules: "CHAT-9, GEN-14",
    field: "seed",
    good: [0, -1, 2 ** 53, 2 ** 63, 1e300],
    bad: wrongTypes("7", 1.5, {}),
  },
  ...["frequency_penalty", "presence_penalty"].map(
    (field): Row => ({
      rules: "CHAT-10",
      field,
      good: [-2, 0, 2],
      bad: [[-2.1, "decimal_below_min_value"], [2.1, "decimal_above_max_value"], ...wrongTypes("0")],
    }),
  ),
  {
    rules: "CHAT-11",
    field: "logit_bias",
    good: [{}, { "50256": -100, "0": 100, "7": 0.5 }],
    bad: [
      [{ a: 1 }, "invalid_value"],
      [{ "1": 101 }, "invalid_value"],
      [{ "-1": 1 }, "invalid_value"],
      ...wrongTypes({ "1": "1" }, [1]),
    ],
  },
  { rules: "CHAT-12", field: "logprobs", good: [true, false], bad: wrongTypes(1, "true") },
  {
    rules: "CHAT-13",
    field: "top_logprobs",
    beside: { logprobs: true },
    good: [0, 20],
    bad: [[21, "integer_above_max_value"], [-1, "integer_below_min_value"], ...wrongTypes("2")],
  },
  { rules: "CHAT-13", field: "top_logprobs", good: [0], bad: [[1, "invalid_value"]] },
  {
    rules: "CHAT-14, RF-2, RF-5",
    field: "response_format",
    good: [
      { type: "text" },
      { type: "json_object" },
      { type: "json_schema", json_schema: { name: "response", strict: true, schema: { type: "object" } } },
      { type: "json_schema", json_schema: { name: "n" } },
    ],
    bad: [
      ...wrongTypes("json_object"),
      [{}, "missing_required_parameter", "response_format.type"],
      [{ type: "xml" }, "invalid_value", "response_format.type"],
      [{ type: "json_schema" }, "missing_required_parameter", "response_format.json_schema"],
      [{ type: "json_schema", json_schema: {} }, "missing_required_parameter", "response_format.json_schema.name"],
      [{ type: "json_schema", json_schema: { name: "a b" } }, "invalid_value", "response_format.json_schema.name"],
      [
        { type: "json_schema", json_schema: { name: "n", schema: "{}" } },
        "invalid_type",
        "response_format.json_schema.schema",
      ],
      [
        { type: "json_schema", json_schema: { name: "n", schema: { $ref: "https://example.com/x" } } },
        "invalid_json_schema",
      ],
    ],
  },
  {
    rules: "CHAT-15, TOOL-1, TOOL-2, TOOL-7, GEN-12",
    field: "tools",
    good: [
      [],
      [tool("f")],
      [tool("a_B-9"), tool("g", { type: "object" })],
      Array.from({ length: 128 }, (_, i) => tool(`f${i}`)),
    ],
    bad: [
      ...wrongTypes({}, "f"),
      [[1], "invalid_type", "tools[0]"],
      [[{ function: { name: "f" } }], "missing_required_parameter", "tools[0].type"],
      [[tool("f"), { type: "function", function: {} }], "missing_required_parameter", "tools[1].function.name"],
      [[tool("a b")], "invalid_value", "tools[0].function.name"],
      [[tool("")], "missing_required_parameter", "tools[0].function.name"],
      [[tool(repeated("f", 65))], "invalid_value", "tools[0].function.name"],
      [[{ type: "custom", custom: { name: "c" } }], "unsupported_value", "tools[0].type"],
      [[{ type: "magic" }], "invalid_value", "tools[0].type"],
      [[{ type: "function", function: { name: "f", parameters: [] } }], "invalid_type", "tools[0].function.parameters"],
      [Array.from({ length: 129 }, (_, i) => tool(`f${i}`)), "array_above_max_length"],
    ],
  },
  {
    rules: "CHAT-15, TOOL-5, TOOL-6, TOOL-7",
    field: "tool_choice",
    beside: { tools: [tool("f"), tool("g")] },
    good: [
      "none",
      "auto",
      "required",
      tool("f"),
      { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [tool("g")] } },
      { type: "allowed_tools", allowed_tools: { mode: "required", tools: [tool("f"), tool("g")] } },
    ],
    bad: [
      ...wrongTypes(1, true, []),
      ["always", "invalid_value"],
      [tool("unknown"), "invalid_value"],
      [{ type: "custom", custom: { name: "f" } }, "unsupported_value", "tool_choice.type"],
      [{ type: "function" }, "missing_required_parameter", "tool_choice.function"],
      [{ type: "allowed_tools", allowed_tools: { mode: "auto", tools: [tool("h")] } }, "invalid_value"],
      [
        { type: "allowed_tools", allowed_tools: { mode: "some", tools: [] } },
        "invalid_value",
        "tool_choice.allowed_tools.mode",
      ],
    ],
  },
  {
    rules: "TOOL-8",
    field: "tool_choice",
    good: ["none", "auto"],
    bad: [
      ["required", "invalid_value"],
      [tool("f"), "invalid_value"],
    ],
  },
  { rules: "CHAT-15, TOOL-8", field: "parallel_tool_calls", good: [true, false], bad: wrongTypes("false", 0) },
  {
    rules: "CHAT-16",
    field: "functions",
    good: [],
    bad: [
      [[], "unsupported_parameter"],
      [[{ name: "f" }], "unsupported_parameter"],
    ],
  },
  { rules: "CHAT-16", field: "function_call", good: [], bad: [["auto", "unsupported_parameter"]] },
  { rules: "CHAT-17, GEN-8", field: "stream", good: [false], bad: wrongTypes("true", 1, {}) },
  {
    rules: "CHAT-18, CHAT-19",
    field: "stream_options",
    good: [{}, { include_usage: true }, { include_usage: null, include_obfuscation: true, other: 1 }],
    bad: [
      ...wrongTypes(true, []),
      [{ include_usage: 1 }, "invalid_type", "stream_options.include_usage"],
      [{ include_obfuscation: "no" }, "invalid_type", "stream_options.include_obfuscation"],
    ],
  },
  {
    rules: "CHAT-20",
    field: "user",
    good: ["", repeated("u", 512)],
    bad: [[repeated("u", 513), "string_above_max_length"], ...wrongTypes(5)],
  },
  {
    rules: "CHAT-20",
    field: "safety_identifier",
    good: [repeated("u", 64)],
    bad: [[repeated("u", 65), "string_above_max_length"], ...wrongTypes({})],
  },
  {
    rules: "CHAT-20",
    field: "prompt_cache_key",
    good: [repeated("u", 512)],
    bad: [[repeated("u", 513), "string_above_max_length"], ...wrongTypes([])],
  },
  {
    rules: "CHAT-21",
    field: "metadata",
    good: [
      {},
      { [repeated("k", 64)]: repeated("v", 512) },
      Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, ""])),
    ],
    bad: [
      [Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, ""])), "invalid_value"],
      [{ [repeated("k", 65)]: "" }, "string_above_max_length"],
      [{ k: repeated("v", 513) }, "string_above_max_length"],
      ...wrongTypes({ k: 1 }, { k: null }, [], "x"),
    ],
  },
  { rules: "CHAT-22", field: "store", good: [true, false], bad: wrongTypes("true") },
  {
    rules: "CHAT-23",
    field: "service_tier",
    good: ["auto", "default", "flex", "priority", "whatever"],
    bad: wrongTypes(1),
  },
  {
    rules: "CHAT-24",
    field: "reasoning_effort",
    good: ["none", "minimal", "low", "medium", "high", "xhigh", "max"],
    bad: [["extreme", "invalid_value"], ["", "invalid_value"], ...wrongTypes(1)],
  },
  {
    rules: "CHAT-25",
    field: "verbosity",
    good: ["low", "medium", "high"],
    bad: [["loud", "invalid_value"], ...wrongTypes(true)],
  },
  {
    rules: "CHAT-26",
    field: "modalities",
    good: [["text"], []],
    bad: [
      [["text", "audio"], "unsupported_value"],
      [["smell"], "invalid_value", "modalities[0]"],
      ...wrongTypes("text"),
    ],
  },
  { rules: "CHAT-26", field: "audio", good: [], bad: [[{ voice: "alloy", format: "mp3" }, "unsupported_value"]] },
  { rules: "CHAT-27", field: "prediction", good: [{ type: "content", content: "x" }], bad: [] },
  { rules: "CHAT-27", field: "prompt_cache_options", good: [{ a: 1 }], bad: [] },
  { rules: "CHAT-27", field: "prompt_cache_retention", good: ["24h"], bad: [] },
  { rules: "CHAT-27", field: "web_search_options", good: [], bad: [[{}, "unsupported_parameter"]] },
  { rules: "CHAT-27", field: "moderation", good: [], bad: [[{}, "unsupported_parameter"]] },
  { rules: "CHAT-28", field: "top_k", good: [0, 40], bad: [[-1, "integer_below_min_value"], ...wrongTypes("40", 0.5)] },
  {
    rules: "CHAT-28",
    field: "min_p",
    good: [0, 1],
    bad: [[-0.1, "decimal_below_min_value"], [1.1, "decimal_above_max_value"], ...wrongTypes("0")],
  },
  {
    rules: "CHAT-28",
    field: "repetition_penalty",
    good: [0.5, 2],
    bad: [[0, "decimal_below_min_value"], [2.1, "decimal_above_max_value"], ...wrongTypes("1")],
  },
  {
    rules: "CHAT-28",
    field: "chat_template_kwargs",
    good: [{}, { enable_thinking: false }],
    bad: wrongTypes("{}", []),
  },
  { rules: "CHAT-30, E-5", field: "guided_regex", good: [""], bad: [["a+", "unsupported_parameter"]] },
  { rules: "CHAT-30, E-5", field: "min_tokens", good: [0], bad: [[1, "unsupported_parameter"]] },
  { rules: "CHAT-30, E-5", field: "prompt_logprobs", good: [], bad: [[0, "unsupported_parameter"]] },
  { rules: "CHAT-28, GEN-10, DEC-9", field: "never_heard_of", good: [1, "x", { a: [] }, []], bad: [] },
];

const cases = rows.map((row) => [`${row.field} (${row.rules}, GEN-7, GEN-8, ERR-7, ERR-8)`, row] as const);

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** A value that the contract accepts, and its error if the model does not support it. */
export interface Unavailable {
  readonly field: string;
  readonly value: unknown;
  readonly status: number;
  readonly code: ErrorCode;
}

export interface ValuesOptions {
  readonly unavailable?: readonly Unavailable[];
  /** Fields of every request with accepted values. */
  readonly beside?: object;
}

/** Tests the values of every field with the model `test-chat` of the service: accepted and rejected ones. */
export function describeChatValues(
  start: () => Promise<RunningService>,
  { unavailable = [], beside: always = {} }: ValuesOptions = {},
): void {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await start();
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(cases)("%s", async (_, { field, good, bad, beside }) => {
    for (const value of [undefined, null, ...good]) {
      const reply = await api.chat({ ...always, ...beside, [field]: value });
      const missing = unavailable.find((one) => one.field === field && isSame(one.value, value));
      if (missing !== undefined) expectError(reply, missing.status, missing.code);
      else expect({ value, status: reply.status, text: reply.text }).toMatchObject({ value, status: 200 });
    }
    for (const [value, code, param = field] of bad) {
      const reply = await api.chat({ ...beside, [field]: value });
      expectError(reply, 400, code, param);
      expect(reply.json.error.type).toBe("invalid_request_error");
    }
  });

  it("the newer name of two token limits takes precedence (CHAT-5)", async () => {
    const { json } = await api.chat({ max_tokens: 1, max_completion_tokens: 3 });
    expect(json.usage.completion_tokens).toBe(3);
    expect((await api.chat({ max_tokens: 2 })).json.usage.completion_tokens).toBe(2);
    expect((await api.chat({ max_tokens: 4, max_completion_tokens: 2 })).json.usage.completion_tokens).toBe(2);
  });

  it("the rejection of functions names their replacement (CHAT-16)", async () => {
    expect((await api.chat({ functions: [{ name: "f" }] })).json.error.message).toContain("tools");
  });

  it("5.0 and 4e1 are integers (GEN-8)", async () => {
    const body = '{"model":"test-chat","messages":[{"role":"user","content":"Hi"}],"n":2.0,"top_k":4e1}';
    const { status, json } = await api.send("POST", "/v1/chat/completions", body);
    expect(status).toBe(200);
    expect(json.choices).toHaveLength(2);
  });

  it("required fields may not be missing, null or empty (GEN-13, MSG-13, GEN-7)", async () => {
    expectError(await api.chat({ model: undefined }), 400, "missing_required_parameter", "model");
    expectError(await api.chat({ model: null }), 400, "missing_required_parameter", "model");
    expectError(await api.chat({ model: "" }), 400, "missing_required_parameter", "model");
    expectError(await api.chat({ model: 5 }), 400, "invalid_type", "model");
    expectError(await api.chat({ messages: undefined }), 400, "missing_required_parameter", "messages");
    expectError(await api.chat({ messages: null }), 400, "missing_required_parameter", "messages");
    expectError(await api.chat({ messages: [] }), 400, "empty_array", "messages");
    expectError(await api.chat({ messages: user }), 400, "invalid_type", "messages");
  });

  it("a rejection names field, expected and given value, and contains no words of other errors (ERR-2, ERR-3, ERR-4)", async () => {
    const replies = await Promise.all([
      api.chat({ temperature: 5 }),
      api.chat({ temperature: "hot" }),
      api.chat({ tool_choice: "rate limit" }),
      api.chat({ reasoning_effort: "maximum context length" }),
      api.chat({ messages: [{ role: "billing quota", content: "" }] }),
    ]);
    const messages = replies.map(({ json }) => json.error.message as string);
    expect(messages[0]).toMatch(/temperature.*2.*5/);
    expect(messages[1]).toMatch(/temperature.*number.*string/);
    for (const message of messages) expect(message).not.toMatch(/rate.?limit|context length| {2}at /i);
  });
}
