import { describe, expect, it } from "vitest";
import { ToolChoice_Mode as Mode, Role } from "../../../../../gen/unified/inference/v1/chat_pb.js";
import { defaultLimits } from "../../../../../src/contract/limits.js";
import { parseJsonBody } from "../../../../../src/transports/http/json-object.js";
import { readResponse, responseFields } from "../../../../../src/transports/openai/responses/read-response.js";
import { expectRefusal } from "../refusal.js";

const readText = (text: string) => readResponse(parseJsonBody(Buffer.from(text), defaultLimits));
const read = (fields: object) => readText(JSON.stringify({ model: "m", input: "Hi", ...fields }));
const repeated = (fields: object) => JSON.parse(`{${read(fields).repeatedJson}}`);
const refused = (fields: object, code: Parameters<typeof expectRefusal>[1], param: string) =>
  expectRefusal(() => read(fields), code, param);

const roleNames = new Map<number, string>(Object.entries(Role).map(([name, role]) => [role, name.toLowerCase()]));

/** A short form of messages: role, text of the content, ids of the calls, id of the answered call. */
const shortened = (input: unknown, instructions?: string) =>
  read({ input, instructions }).params.messages.map(({ role, content, toolCalls, toolCallId }) =>
    [
      roleNames.get(role),
      content.map(({ part }) => (part.case === "text" ? part.value : part.case)).join("|"),
      ...toolCalls.map((call) => `${call.id}=${call.function?.name}(${call.function?.argumentsJson})`),
      ...(toolCallId === undefined ? [] : [toolCallId]),
    ].join(" "),
  );

const user = { role: "user", content: "Hi" };
const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
const output = (id: string, text: unknown = "5") => ({ type: "function_call_output", call_id: id, output: text });
const tool = (name = "f") => ({ type: "function", name });

describe("response request", () => {
  it("may have null in every optional field (RSP-1, GEN-7)", () => {
    const nulls = Object.fromEntries([...responseFields].map((name) => [name, null]));
    const { params, stream, repeatedJson } = read({ ...nulls, model: "m", input: "Hi" });
    const absent = read({});
    expect({ params, stream, repeatedJson }).toEqual({
      params: absent.params,
      stream: absent.stream,
      repeatedJson: absent.repeatedJson,
    });
  });

  it("is translated with every field (RSP-1)", () => {
    const { params, stream } = read({
      instructions: "Be brief.",
      max_output_tokens: 20,
      temperature: 0.5,
      top_p: 0.9,
      parallel_tool_calls: false,
      text: { format: { type: "json_object" }, verbosity: "low" },
      reasoning: { effort: "low", summary: "auto" },
      stream: true,
      store: true,
      metadata: { a: "b" },
      include: ["message.output_text.logprobs", "reasoning.encrypted_content"],
      top_logprobs: 3,
      truncation: "auto",
      user: "u",
      safety_identifier: "s",
      prompt_cache_key: "k",
      service_tier: "flex",
      top_k: 40,
      seed: 7,
      stop: "a",
      chat_template_kwargs: { enable_thinking: false },
      whatever: { a: 1 },
    });
    expect(stream).toBe(true);
    expect(params).toMatchObject({
      model: "m",
      maxCompletionTokens: 20,
      temperature: 0.5,
      topP: 0.9,
      parallelToolCalls: false,
      responseFormat: { format: { case: "jsonObject" } },
      verbosity: "low",
      reasoningEffort: "low",
      metadata: { a: "b" },
      logprobs: true,
      topLogprobs: 3,
      user: "u",
      safetyIdentifier: "s",
      promptCacheKey: "k",
      serviceTier: "flex",
      topK: 40,
      seed: 7n,
      stop: ["a"],
      chatTemplateKwargsJson: '{"enable_thinking":false}',
      passThroughJson: { whatever: '{"a":1}' },
    });
    expect(params.store).toBeUndefined();
    expect(params.messages[0]).toMatchObject({ role: Role.SYSTEM });
  });

  it("has the fields of a schema directly in the format, and the schema keeps its text (RSP-1)", () => {
    const { params } = readText(
      '{"model":"m","input":"Hi","text":{"format":{"type":"json_schema","name":"s","strict":true,"schema":{"b":1, "a":9007199254740993}}}}',
    );
    expect(params.responseFormat?.format.value).toMatchObject({
      name: "s",
      strict: true,
      schemaJson: '{"b":1, "a":9007199254740993}',
    });
    refused(
      { text: { format: { type: "json_schema", schema: {} } } },
      "missing_required_parameter",
      "text.format.name",
    );
    refused({ text: { format: { type: "xml" } } }, "invalid_value", "text.format.type");
  });

  it.each([
    [{ model: undefined }, "missing_required_parameter", "model"],
    [{ input: undefined }, "missing_required_parameter", "input"],
    [{ input: [] }, "empty_array", "input"],
    [{ input: 5 }, "invalid_type", "input"],
    [{ input: [5] }, "invalid_type", "input[0]"],
    [{ instructions: [] }, "invalid_type", "instructions"],
    [{ max_output_tokens: "5" }, "invalid_type", "max_output_tokens"],
    [{ truncation: "often" }, "invalid_value", "truncation"],
    [{ include: ["everything"] }, "invalid_value", "include[0]"],
    [{ top_logprobs: 21 }, "integer_above_max_value", "top_logprobs"],
    [{ stream: "yes" }, "invalid_type", "stream"],
    [{ reasoning: "high" }, "invalid_type", "reasoning"],
  ] as const)("a wrong value is refused with its path: %j (RSP-1, GEN-8)", (fields, code, param) => {
    refused(fields, code, param);
  });

  it("requests log probabilities only by `include` (RSP-1)", () => {
    expect(read({ top_logprobs: 3 }).params).toMatchObject({ logprobs: undefined, topLogprobs: undefined });
    expect(read({ include: ["message.output_text.logprobs"] }).params.logprobs).toBe(true);
  });

  it("is refused if it needs stored data; `store` is accepted, but false in the answer (RSP-3)", () => {
    const stored = refused({ previous_response_id: "resp_1" }, "unsupported_parameter", "previous_response_id");
    expect(stored.message).toContain("responses.keep");
    refused({ conversation: "conv_1" }, "unsupported_parameter", "conversation");
    refused({ background: true }, "unsupported_parameter", "background");
    expect(read({ background: false }).stream).toBe(false);
    expect(repeated({ store: true }).store).toBe(false);
  });

  it("is repeated in the answer, with OpenAI's defaults (RSP-4)", () => {
    expect(repeated({})).toEqual({
      background: false,
      instructions: null,
      max_output_tokens: null,
      max_tool_calls: null,
      metadata: {},
      model: "m",
      parallel_tool_calls: true,
      previous_response_id: null,
      prompt_cache_key: null,
      reasoning: { effort: null, summary: null },
      safety_identifier: null,
      service_tier: "default",
      store: false,
      temperature: 1,
      text: { format: { type: "text" }, verbosity: "medium" },
      tool_choice: "auto",
      tools: [],
      top_logprobs: 0,
      top_p: 1,
      truncation: "disabled",
      user: null,
    });
    expect(repeated({ temperature: 0, metadata: { a: "\n" }, tool_choice: "none", instructions: "é" })).toMatchObject({
      temperature: 0,
      metadata: { a: "\n" },
      tool_choice: "none",
      instructions: "é",
    });
  });

  it("is repeated in the answer on one line, as SSE requires (RSP-6)", () => {
    const pretty = JSON.stringify(
      {
        model: "m",
        input: "Hi",
        tools: [{ ...tool(), parameters: { type: "object" } }],
        tool_choice: { type: "function", name: "f" },
        text: { format: { type: "json_schema", name: "s", schema: {} } },
      },
      null,
      2,
    ).replaceAll("\n", "\r\n");
    const { repeatedJson } = readText(pretty);
    expect(repeatedJson).not.toMatch(/[\r\n]/);
    expect(JSON.parse(`{${repeatedJson}}`)).toMatchObject({
      tools: [{ type: "function", name: "f", description: null, parameters: { type: "object" }, strict: false }],
      tool_choice: { type: "function", name: "f" },
      text: { format: { type: "json_schema", name: "s", schema: {} } },
    });
  });
});

describe("input items of a response request", () => {
  it("may be messages with a text or parts, with or without a type (RSP-2)", () => {
    expect(shortened("Hi", "Be brief.")).toEqual(["system Be brief.", "user Hi"]);
    const image = { type: "input_image", image_url: "data:image/png;base64,AA==", detail: "auto" };
    expect(
      shortened([
        { type: "message", role: "system", content: [{ type: "input_text", text: "a" }] },
        { role: "developer", content: "b" },
        {
          role: "user",
          content: [{ type: "input_text", text: "c" }, image, { type: "input_file", file_data: "AA==" }],
        },
        {
          ...{ type: "message", id: "msg_1", status: "completed", role: "assistant" },
          content: [
            { type: "output_text", text: "d", annotations: [] },
            { type: "refusal", refusal: "e" },
          ],
        },
        { role: "assistant", content: [] },
      ]),
    ).toEqual(["system a", "developer b", "user c|imageUrl|file", "assistant d|refusal", "assistant "]);
  });

  it("that are successive calls become one message with the text before them, followed by the outputs (RSP-2)", () => {
    const text = { role: "assistant", content: "Wait." };
    expect(shortened([user, text, call("a"), call("b"), output("b"), output("a"), call("c"), output("c")])).toEqual([
      "user Hi",
      "assistant Wait. a=f({}) b=f({})",
      "tool 5 b",
      "tool 5 a",
      "assistant  c=f({})",
      "tool 5 c",
    ]);
  });

  it("of reasoning are ignored, also between calls (RSP-2)", () => {
    const reasoning = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" };
    expect(shortened([user, reasoning, call("a"), reasoning, call("b"), output("a"), output("b")])).toEqual([
      "user Hi",
      "assistant  a=f({}) b=f({})",
      "tool 5 a",
      "tool 5 b",
    ]);
  });

  it("that are messages between a call and its output are moved behind the output (RSP-2)", () => {
    expect(shortened([call("a"), user, output("a", [{ type: "input_text", text: "6" }])])).toEqual([
      "assistant  a=f({})",
      "tool 6 a",
      "user Hi",
    ]);
  });

  it.each([
    [[{ type: "item_reference", id: "msg_1" }], "unsupported_value", "input[0].type"],
    [[{ type: "web_page" }], "invalid_value", "input[0].type"],
    [[{ content: "Hi" }], "missing_required_parameter", "input[0].role"],
    [[{ role: "tool", content: "Hi" }], "invalid_value", "input[0].role"],
    [[{ role: "user" }], "missing_required_parameter", "input[0].content"],
    [[{ role: "user", content: [] }], "empty_array", "input[0].content"],
    [[{ role: "user", content: [{ type: "text" }] }], "invalid_value", "input[0].content[0].type"],
    [[user, call("a")], "invalid_tool_messages", "input[1].call_id"],
    [[user, output("a")], "invalid_tool_messages", "input[1].call_id"],
    [[call("a"), output("a"), output("a")], "invalid_tool_messages", "input[2].call_id"],
    [[{ ...call("a"), arguments: {} }], "invalid_type", "input[0].arguments"],
    [[{ type: "function_call_output", output: "" }], "missing_required_parameter", "input[0].call_id"],
  ] as const)("%j is refused (RSP-2, GEN-12)", (input, code, param) => {
    refused({ input }, code, param);
  });

  it("are named in this API's notation by errors of the core (GEN-12)", () => {
    const items = [user, { role: "assistant", content: "Wait." }, call("a"), call("b"), output("a"), output("b")];
    const request = read({ instructions: "Be brief.", input: items, tools: [{ type: "web_search" }, tool()] });
    const names = {
      "messages[0].content[0]": "instructions",
      "messages[1].content[0].image_url.url": "input[0].content[0].image_url",
      "messages[2].content[0]": "input[1].content[0]",
      "messages[2].tool_calls[1].id": "input[3].call_id",
      "messages[2].tool_calls[0].function.name": "input[2].name",
      "messages[4].content[0]": "input[5].output[0]",
      "messages[4].tool_call_id": "input[5].call_id",
      "tools[0].function.parameters": "tools[1].parameters",
      "response_format.json_schema.name": "text.format.name",
      response_format: "text.format",
      max_completion_tokens: "max_output_tokens",
      reasoning_effort: "reasoning.effort",
      verbosity: "text.verbosity",
      temperature: "temperature",
    };
    for (const [param, here] of Object.entries(names)) {
      const fault = request.renamed({ param, message: `'${param}' must be one of 'low', but is "messages".` });
      expect(fault).toEqual({ param: here, message: `'${here}' must be one of 'low', but is "messages".` });
    }
    const plain = { param: null, message: "The engine stopped." };
    expect(request.renamed(plain)).toBe(plain);
  });
});

describe("tools of a response request", () => {
  it("have their fields directly, without `function`, and keep the text of their parameters (RSP-1)", () => {
    const { params } = readText(
      '{"model":"m","input":"Hi","tools":[{"type":"function","name":"f","description":"d","strict":true,"parameters":{"b":1, "a":2}}]}',
    );
    expect(params.tools).toMatchObject([
      { function: { name: "f", description: "d", strict: true, parametersJson: '{"b":1, "a":2}' } },
    ]);
    refused({ tools: [{ type: "function", function: { name: "f" } }] }, "missing_required_parameter", "tools[0].name");
  });

  it("are skipped if agents list them in every request, and the answer lists the others (RSP-3)", () => {
    const skipped = ["custom", "namespace", "web_search", "web_search_2025_08_26", "web_search_preview", "local_shell"];
    const tools = [...skipped.map((type) => ({ type, name: "x" })), tool()];
    expect(read({ tools }).params.tools.map((offered) => offered.function?.name)).toEqual(["f"]);
    expect(repeated({ tools }).tools).toMatchObject([{ type: "function", name: "f" }]);
  });

  it.each(["file_search", "computer_use", "computer_use_preview", "code_interpreter", "image_generation", "mcp"])(
    "of the type %s are refused (RSP-3)",
    (type) => {
      refused({ tools: [tool(), { type }] }, "unsupported_value", "tools[1].type");
    },
  );

  it.each([
    [{ tool_choice: { type: "web_search" } }, "tools[1].type"],
    [{ tool_choice: { type: "custom", name: "x" } }, "tools[2].type"],
    [{ tool_choice: { type: "local_shell" } }, "tool_choice.type"],
    [{ tool_choice: { type: "file_search" } }, "tool_choice.type"],
    [{ tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }] } }, "tools[1].type"],
  ] as const)("cannot be forced by a choice if they are skipped: %j (RSP-3)", (fields, param) => {
    const tools = [tool(), { type: "web_search" }, { type: "custom", name: "x" }];
    refused({ tools, ...fields }, "unsupported_value", param);
  });

  it("must include one that is not skipped for the choice `required` (RSP-3)", () => {
    refused({ tools: [{ type: "web_search" }], tool_choice: "required" }, "unsupported_value", "tools[0].type");
  });

  it.each([
    ["none", { case: "mode", value: Mode.NONE }],
    ["required", { case: "mode", value: Mode.REQUIRED }],
    [
      { type: "function", name: "f" },
      { case: "function", value: "f" },
    ],
    [
      { type: "allowed_tools", mode: "auto", tools: [tool(), { type: "web_search" }] },
      { case: "allowed", value: { mode: Mode.AUTO, names: ["f"] } },
    ],
    [
      { type: "allowed_tools", mode: "auto", tools: [{ type: "web_search" }] },
      { case: "mode", value: Mode.NONE },
    ],
  ] as const)("may be chosen with %j (RSP-1)", (tool_choice, choice) => {
    const request = read({ tools: [tool(), { type: "web_search" }], tool_choice });
    expect(request.params.toolChoice?.choice).toMatchObject(choice);
  });

  it("are refused if the tool or the choice is unknown (GEN-10)", () => {
    refused({ tools: [{ type: "teleport" }] }, "invalid_value", "tools[0].type");
    refused({ tool_choice: "any" }, "invalid_value", "tool_choice");
    refused({ tool_choice: { type: "teleport" } }, "invalid_value", "tool_choice.type");
    refused({ tool_choice: 5 }, "invalid_type", "tool_choice");
  });
});
