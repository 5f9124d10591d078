import { describe, expect, it } from "vitest";
import { ToolChoice_Mode as Mode, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { ErrorCode } from "../../../../src/contract/errors.js";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { validateChatCompletion } from "../../../../src/domain/inference/validate-chat.js";
import { anthropicFamily, restated } from "../../../../src/transports/anthropic/family.js";
import {
  countFields,
  messageFields,
  readCount,
  readMessage,
} from "../../../../src/transports/anthropic/read-message.js";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";

const user = { role: "user", content: "Hi" };
const bodyOf = (fields: object) =>
  parseJsonBody(
    Buffer.from(JSON.stringify({ model: "m", max_tokens: 10, messages: [user], ...fields })),
    defaultLimits,
  );
const read = (fields: object) => readMessage(bodyOf(fields));
const converse = (...messages: object[]) => read({ messages });

const roleNames = new Map<number, string>(Object.entries(Role).map(([name, role]) => [role, name]));

/** A short form of the messages that the core gets. */
const shown = (fields: object) =>
  read(fields).params.messages.map(({ role, content, toolCalls, toolCallId }) => ({
    role: roleNames.get(role),
    content: content.map(({ part }) => (part.case === "imageUrl" ? part.value.url : part.value)),
    ...(toolCalls.length > 0 && { calls: toolCalls.map(({ id, function: f }) => [id, f?.name, f?.argumentsJson]) }),
    ...(toolCallId !== undefined && { answers: toolCallId }),
  }));

/** Code of the error, and the message that the client gets. */
function refusal(fields: object): { code: ErrorCode; message: string } {
  try {
    const { params, sources } = read(fields);
    try {
      validateChatCompletion(params, defaultLimits);
    } catch (thrown) {
      throw restated(thrown, sources);
    }
  } catch (thrown) {
    if (!(thrown instanceof ServiceError)) throw thrown;
    const { error } = anthropicFamily.errorToJson(thrown, "req_1") as { error: { message: string } };
    return { code: thrown.code, message: error.message };
  }
  throw new Error("nothing was refused");
}

const schema = { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", properties: {} };
const weather = { name: "weather", description: "Tells the weather.", input_schema: schema };
const userBlock = (block: object) => ({ messages: [{ role: "user", content: [block] }] });
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } };

describe("a request of the Messages API", () => {
  it("is accepted if every optional field is null (ANT-1, GEN-7)", () => {
    const nulls = Object.fromEntries([...messageFields].map((name) => [name, null]));
    expect(read({ ...nulls, model: "m", max_tokens: 10, messages: [user] })).toEqual(read({}));
  });

  it("is translated with every field (ANT-1)", () => {
    const { params, stream } = read({
      system: "Be brief.",
      max_tokens: 32_000,
      stop_sequences: ["a", "b"],
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      tools: [weather],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      metadata: { user_id: "u" },
      thinking: { type: "enabled", budget_tokens: 10_000 },
      stream: true,
    });
    expect(stream).toBe(true);
    expect(params).toMatchObject({
      model: "m",
      maxTokens: 32_000,
      stop: ["a", "b"],
      temperature: 0.5,
      topP: 0.9,
      topK: 40,
      user: "u",
      parallelToolCalls: false,
      reasoningEffort: "medium",
      toolChoice: { choice: { case: "mode", value: Mode.AUTO } },
      tools: [
        { function: { name: "weather", description: "Tells the weather.", parametersJson: JSON.stringify(schema) } },
      ],
    });
    expect(() => validateChatCompletion(params, defaultLimits)).not.toThrow();
  });

  it("may have system and content as text or as blocks (ANT-1)", () => {
    const cached = { cache_control: { type: "ephemeral" } };
    expect(
      shown({
        system: [
          { type: "text", text: "x-anthropic-billing-header: cch=1;" },
          { type: "text", text: "One.", ...cached },
          { type: "text", text: "Two." },
        ],
        messages: [
          { role: "user", content: [{ type: "text", text: "Look:", ...cached }, image] },
          { role: "assistant", content: "A cat." },
          { role: "user", content: [{ type: "image", source: { type: "url", url: "https://example.com/a.png" } }] },
        ],
      }),
    ).toEqual([
      { role: "SYSTEM", content: ["One.", "Two."] },
      { role: "USER", content: ["Look:", "data:image/png;base64,iVBO"] },
      { role: "ASSISTANT", content: ["A cat."] },
      { role: "USER", content: ["https://example.com/a.png"] },
    ]);
  });

  it("may have documents of plain text, which follow their title (ANT-1)", () => {
    const text = { type: "document", title: "Notes", source: { type: "text", media_type: "text/plain", data: "One." } };
    const blocks = { type: "document", source: { type: "content", content: [{ type: "text", text: "Two." }] } };
    expect(shown({ messages: [{ role: "user", content: [text, blocks] }] })).toEqual([
      { role: "USER", content: ["Notes\nOne.", "Two."] },
    ]);
  });

  it("may have tool results, which become separate messages before the rest of the message (ANT-1)", () => {
    const calls = [
      { type: "thinking", thinking: "Hm.", signature: "s" },
      { type: "redacted_thinking", data: "x" },
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { at: "Bonn" } },
      { type: "tool_use", id: "toolu_2", name: "clock", input: {} },
    ];
    const results = [
      { type: "text", text: "Go on." },
      { type: "tool_result", tool_use_id: "toolu_1", content: "Sunny." },
      { type: "tool_result", tool_use_id: "toolu_2", is_error: true, content: [{ type: "text", text: "No clock." }] },
    ];
    const messages = [user, { role: "assistant", content: calls }, { role: "user", content: results }];
    expect(shown({ messages })).toEqual([
      { role: "USER", content: ["Hi"] },
      {
        role: "ASSISTANT",
        content: ["Let me see."],
        calls: [
          ["toolu_1", "weather", '{"at":"Bonn"}'],
          ["toolu_2", "clock", "{}"],
        ],
      },
      { role: "TOOL", content: ["Sunny."], answers: "toolu_1" },
      { role: "TOOL", content: ["Error: ", "No clock."], answers: "toolu_2" },
      { role: "USER", content: ["Go on."] },
    ]);
    expect(() => validateChatCompletion(read({ messages }).params, defaultLimits)).not.toThrow();
    expect(read({ messages }).sources).toEqual([
      "messages[0]",
      "messages[1]",
      "messages[2].content[1]",
      "messages[2].content[2]",
      "messages[2]",
    ]);
  });

  it("may have a tool result without content or an assistant message with only thinking: they become empty texts (ANT-1)", () => {
    const thought = { role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: "" }] };
    const call = { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: {} }] };
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t" }] };
    expect(shown({ messages: [user, thought, call, result] }).slice(1)).toEqual([
      { role: "ASSISTANT", content: [""] },
      { role: "ASSISTANT", content: [], calls: [["t", "f", "{}"]] },
      { role: "TOOL", content: [""], answers: "t" },
    ]);
  });

  it("is accepted with all fields that Claude Code sends (ANT-1)", () => {
    const fields = {
      system: [{ type: "text", text: "You are an agent.", cache_control: { type: "ephemeral", ttl: "1h" } }],
      messages: [
        { role: "user", content: [{ type: "text", text: "<system-reminder>…</system-reminder>" }] },
        { role: "system", content: "Answer in one sentence." },
        { role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] },
      ],
      tools: Array.from({ length: 24 }, (_, i) => ({ ...weather, name: `Tool${i}`, eager_input_streaming: true })),
      max_tokens: 32_000,
      thinking: { type: "adaptive" },
      output_config: { effort: "xhigh" },
      context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      metadata: { user_id: JSON.stringify({ device_id: "d".repeat(64), session_id: "s" }) },
      stream: true,
    };
    const { params } = read(fields);
    expect(() => validateChatCompletion(params, defaultLimits)).not.toThrow();
    expect(params).toMatchObject({ reasoningEffort: "high", maxTokens: 32_000 });
    expect(shown(fields).map(({ role }) => role)).toEqual(["SYSTEM", "USER", "SYSTEM", "USER"]);
  });

  it.each([
    [{ type: "any" }, { case: "mode", value: Mode.REQUIRED }],
    [{ type: "none" }, { case: "mode", value: Mode.NONE }],
    [
      { type: "tool", name: "weather" },
      { case: "function", value: "weather" },
    ],
  ])("with tool_choice %j is translated to the core's tool choice (ANT-1)", (choice, expected) => {
    expect(read({ tools: [weather], tool_choice: choice }).params.toolChoice?.choice).toEqual(expected);
  });

  it.each([
    [undefined, undefined, undefined],
    [undefined, { effort: "high" }, undefined],
    [{ type: "disabled" }, { effort: "high" }, "none"],
    [{ type: "adaptive" }, undefined, "medium"],
    [{ type: "adaptive" }, { effort: "low" }, "low"],
    [{ type: "enabled", budget_tokens: 1_024 }, undefined, "low"],
    [{ type: "enabled", budget_tokens: 32_000 }, undefined, "high"],
    [{ type: "enabled", budget_tokens: 32_000 }, { effort: "medium" }, "medium"],
  ])("with thinking %j and output_config %j has the reasoning effort %s (ANT-1)", (thinking, output_config, effort) => {
    expect(read({ thinking, output_config }).params.reasoningEffort).toBe(effort);
  });

  it("with output_config.format has a strict JSON schema as response format (ANT-1)", () => {
    const { params } = read({ output_config: { format: { type: "json_schema", schema: { type: "object" } } } });
    expect(params.responseFormat?.format).toMatchObject({
      case: "jsonSchema",
      value: { schemaJson: '{"type":"object"}', strict: true },
    });
  });

  it.each<[code: ErrorCode, message: RegExp, fields: object]>([
    ["missing_required_parameter", /'max_tokens'/, { max_tokens: undefined }],
    ["integer_below_min_value", /'max_tokens'/, { max_tokens: 0 }],
    ["invalid_type", /'max_tokens'/, { max_tokens: "10" }],
    ["missing_required_parameter", /'model'/, { model: undefined }],
    ["missing_required_parameter", /'messages'/, { messages: undefined }],
    ["empty_array", /'messages'/, { messages: [], system: "Be brief." }],
    ["invalid_value", /'messages\.0\.role'/, { messages: [{ role: "tool", content: "x" }] }],
    ["missing_required_parameter", /'messages\.0\.content'/, { messages: [{ role: "user" }] }],
    ["invalid_type", /'messages\.0\.content'/, { messages: [{ role: "user", content: 1 }] }],
    ["empty_array", /'messages\.0\.content'/, { messages: [{ role: "user", content: [] }] }],
    ["invalid_value", /'messages\.0\.content\.0\.type'.*'text', 'image', 'document'/, userBlock({ type: "video" })],
    [
      "invalid_value",
      /'messages\.0\.content\.0\.type'.*'tool_use'/,
      { messages: [{ role: "assistant", content: [image] }] },
    ],
    [
      "invalid_value",
      /'messages\.0\.content\.0\.source\.media_type'/,
      userBlock({ ...image, source: { ...image.source, media_type: "image/tiff" } }),
    ],
    [
      "invalid_value",
      /'messages\.0\.content\.0\.source\.type'/,
      userBlock({ type: "document", source: { type: "base64", media_type: "application/pdf", data: "" } }),
    ],
    ["invalid_value", /'system\.0\.type'/, { system: [image] }],
    ["unsupported_value", /'tools\.0\.type'/, { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["unsupported_value", /'tools\.1\.type'/, { tools: [weather, { type: "bash_20250124", name: "bash" }] }],
    ["missing_required_parameter", /'tools\.0\.input_schema'/, { tools: [{ name: "f" }] }],
    ["invalid_value", /'tools\.0\.name'/, { tools: [{ ...weather, name: "no name" }] }],
    [
      "invalid_function_parameters",
      /'tools\.0\.input_schema'/,
      { tools: [{ ...weather, input_schema: { $ref: "http://example.com/" } }] },
    ],
    ["invalid_value", /'tool_choice'/, { tool_choice: { type: "any" } }],
    ["invalid_value", /'tool_choice\.type'/, { tool_choice: { type: "maybe" } }],
    ["array_above_max_length", /'stop_sequences'/, { stop_sequences: ["a", "b", "c", "d", "e"] }],
    ["invalid_type", /'stop_sequences'/, { stop_sequences: "a" }],
    ["invalid_value", /'thinking\.type'/, { thinking: { type: "sometimes" } }],
    ["invalid_value", /'output_config\.effort'/, { output_config: { effort: "huge" } }],
    ["string_above_max_length", /'metadata\.user_id'/, { metadata: { user_id: "u".repeat(513) } }],
    ["unsupported_parameter", /'mcp_servers'/, { mcp_servers: [{ type: "url", url: "https://example.com" }] }],
    ["unsupported_parameter", /'container'/, { container: "container_1" }],
    ["unsupported_parameter", /'thread'/, { thread: { type: "create" } }],
  ])("is refused with %s and a message that matches %s (ANT-5)", (code, message, fields) => {
    const refused = refusal(fields);
    expect(refused.code).toBe(code);
    expect(refused.message).toMatch(message);
  });

  it("is refused for a tool call without result or a result without call, in terms of this API (ANT-5)", () => {
    const call = { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "f", input: {} }] };
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_2", content: "x" }] };
    const unanswered = refusal({ messages: [user, call, user] });
    expect(unanswered.code).toBe("invalid_tool_messages");
    expect(unanswered.message).toMatch(/^'messages\.1': each 'tool_use' block must have a 'tool_result' block/);
    expect(refusal({ messages: [user, call, result] }).message).toMatch(/^'messages\.2\.content\.0'/);
    expect(converse(user, call, result).params.messages).toHaveLength(3);
  });

  it("needs no max_tokens to count tokens, and is read with the fields that are part of the prompt (ANT-6)", () => {
    const fields = { system: "Be brief.", tools: [weather], max_tokens: undefined };
    const { params } = readCount(bodyOf(fields));
    expect(params).toMatchObject({ model: "m", messages: [{ role: Role.SYSTEM }, { role: Role.USER }] });
    expect(params.tools).toHaveLength(1);
    expect([...countFields].filter((name) => !messageFields.has(name))).toEqual([]);
  });
});
