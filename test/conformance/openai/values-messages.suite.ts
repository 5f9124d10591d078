import { afterAll, beforeAll, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import type { RunningService } from "../../support/start-service.js";
import { type Api, createApi, expectError, user } from "./api.js";

const call = (id: string, args: unknown = "{}") => ({ id, type: "function", function: { name: "f", arguments: args } });
const calls = (...ids: string[]) => ({ role: "assistant", content: null, tool_calls: ids.map((id) => call(id)) });
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "42" });
const parts = (...list: unknown[]) => ({ role: "user", content: list });

const good: readonly (readonly [title: string, messages: readonly object[]])[] = [
  ...["developer", "system", "user", "assistant"].map(
    (role) => [`${role} (MSG-1, DEC-4)`, [{ role, content: "x" }]] as const,
  ),
  ["function (MSG-1, DEC-4)", [{ role: "function", name: "f", content: "x" }]],
  ["tool (MSG-1, MSG-7)", [calls("a"), result("a")]],
  [
    "messages of every role with parts (MSG-2)",
    ["developer", "system", "user", "assistant"].map((role) => ({ role, content: [{ type: "text", text: "x" }] })),
  ],
  ["parts for a tool (MSG-2)", [calls("a"), { ...result("a"), content: [{ type: "text", text: "42" }] }]],
  [
    "a part that has a cache breakpoint (MSG-3)",
    [parts({ type: "text", text: "x", prompt_cache_breakpoint: { a: 1 } })],
  ],
  ["a refusal of the assistant (MSG-3)", [{ role: "assistant", content: [{ type: "refusal", refusal: "no" }] }]],
  ["null content with calls (MSG-5)", [calls("a"), result("a")]],
  ["absent content with calls (MSG-5)", [{ role: "assistant", tool_calls: [call("a")] }, result("a")]],
  [
    "empty content (MSG-5)",
    [
      { role: "assistant", content: "" },
      { role: "user", content: "" },
    ],
  ],
  ["arguments that are no JSON (MSG-6)", [{ role: "assistant", tool_calls: [call("a", "{no")] }, result("a")]],
  ["answers in any order, twice, and text after them (MSG-7)", [calls("a", "b"), result("b"), result("a"), user]],
  ["an id of 256 characters (MSG-8)", [calls("i".repeat(256)), result("i".repeat(256))]],
  [
    "names (MSG-9)",
    [
      { ...user, name: "n".repeat(512) },
      { role: "system", content: "x", name: null },
    ],
  ],
  [
    "system messages at any position (MSG-10)",
    [user, { role: "system", content: "x" }, user, { role: "system", content: "y" }],
  ],
  ["reasoning sent back (MSG-12)", [{ role: "assistant", content: "x", reasoning_content: "r", reasoning: "r" }, user]],
];

const bad: readonly (readonly [title: string, messages: readonly unknown[], code: ErrorCode, param: string])[] = [
  ["an unknown role (MSG-1, GEN-10)", [user, { role: "robot", content: "x" }], "invalid_value", "messages[1].role"],
  ["no role (MSG-1)", [{ content: "x" }], "missing_required_parameter", "messages[0].role"],
  ["a role that is no text (GEN-8)", [{ role: 1, content: "x" }], "invalid_type", "messages[0].role"],
  ["a message that is no object (GEN-8)", ["Hi"], "invalid_type", "messages[0]"],
  ["a message that is null (GEN-8)", [null], "invalid_type", "messages[0]"],
  ["no parts (MSG-2)", [parts()], "empty_array", "messages[0].content"],
  ["content of another type (MSG-2)", [{ role: "user", content: 5 }], "invalid_type", "messages[0].content"],
  [
    "content that is one part instead of a list (MSG-2)",
    [{ role: "user", content: { type: "text", text: "x" } }],
    "invalid_type",
    "messages[0].content",
  ],
  ["a user without content (MSG-5)", [{ role: "user" }], "missing_required_parameter", "messages[0].content"],
  ["a user with null (MSG-5)", [{ role: "user", content: null }], "missing_required_parameter", "messages[0].content"],
  [
    "an assistant message with neither content nor calls (MSG-5)",
    [{ role: "assistant", content: null }],
    "missing_required_parameter",
    "messages[0].content",
  ],
  ["a part that is a text (MSG-3)", [parts("x")], "invalid_type", "messages[0].content[0]"],
  ["a part without type (MSG-3)", [parts({ text: "x" })], "missing_required_parameter", "messages[0].content[0].type"],
  [
    "an unknown type (MSG-3, GEN-10)",
    [parts({ type: "text", text: "" }, { type: "video" })],
    "invalid_value",
    "messages[0].content[1].type",
  ],
  [
    "a text part without text (MSG-3)",
    [parts({ type: "text" })],
    "missing_required_parameter",
    "messages[0].content[0].text",
  ],
  [
    "a refusal of the user (MSG-3)",
    [parts({ type: "refusal", refusal: "no" })],
    "invalid_value",
    "messages[0].content[0]",
  ],
  [
    "an image as a text (MSG-3)",
    [parts({ type: "image_url", image_url: "data:," })],
    "invalid_type",
    "messages[0].content[0].image_url",
  ],
  [
    "an image without url (MSG-3)",
    [parts({ type: "image_url", image_url: {} })],
    "missing_required_parameter",
    "messages[0].content[0].image_url.url",
  ],
  [
    "an image as data, which this model does not support (MSG-4)",
    [parts({ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } })],
    "unsupported_value",
    "messages[0].content[0]",
  ],
  [
    "an image by URL (MSG-4)",
    [user, parts({ type: "text", text: "x" }, { type: "image_url", image_url: { url: "http://127.0.0.1:9/x" } })],
    "unsupported_value",
    "messages[1].content[1]",
  ],
  [
    "a sound (MSG-3)",
    [parts({ type: "input_audio", input_audio: { data: "AA==", format: "wav" } })],
    "unsupported_value",
    "messages[0].content[0]",
  ],
  ["a file (MSG-3)", [parts({ type: "file", file: { file_id: "f" } })], "unsupported_value", "messages[0].content[0]"],
  [
    "a call without id (MSG-6)",
    [{ role: "assistant", tool_calls: [{ type: "function", function: { name: "f", arguments: "" } }] }],
    "missing_required_parameter",
    "messages[0].tool_calls[0].id",
  ],
  [
    "a call without type (MSG-6)",
    [{ role: "assistant", tool_calls: [{ id: "a", function: { name: "f", arguments: "" } }] }],
    "missing_required_parameter",
    "messages[0].tool_calls[0].type",
  ],
  [
    "a custom call (MSG-6, TOOL-7)",
    [{ role: "assistant", tool_calls: [{ id: "a", type: "custom" }] }],
    "unsupported_value",
    "messages[0].tool_calls[0].type",
  ],
  [
    "arguments that are no text (MSG-6, TOOL-10)",
    [{ role: "assistant", tool_calls: [call("a", {})] }],
    "invalid_type",
    "messages[0].tool_calls[0].function.arguments",
  ],
  [
    "a call of the user (MSG-6)",
    [{ role: "user", content: "x", tool_calls: [call("a")] }],
    "invalid_value",
    "messages[0].tool_calls",
  ],
  ["a call without answer (MSG-7)", [user, calls("a"), user], "invalid_tool_messages", "messages[1].tool_calls"],
  [
    "two calls of which one has no result (MSG-7)",
    [calls("a", "b"), result("a")],
    "invalid_tool_messages",
    "messages[0].tool_calls",
  ],
  ["an answer to nothing (MSG-7)", [user, result("a")], "invalid_tool_messages", "messages[1].tool_call_id"],
  ["an answer to another call (MSG-7)", [calls("a"), result("b")], "invalid_tool_messages", "messages[1].tool_call_id"],
  [
    "a tool result without id (MSG-7)",
    [calls("a"), { role: "tool", content: "x" }],
    "missing_required_parameter",
    "messages[1].tool_call_id",
  ],
  [
    "a tool result without content (MSG-7)",
    [calls("a"), { role: "tool", tool_call_id: "a" }],
    "missing_required_parameter",
    "messages[1].content",
  ],
  [
    "an id of 257 characters (MSG-8)",
    [calls("i".repeat(257))],
    "string_above_max_length",
    "messages[0].tool_calls[0].id",
  ],
  [
    "a name of 513 characters (MSG-9)",
    [{ ...user, name: "n".repeat(513) }],
    "string_above_max_length",
    "messages[0].name",
  ],
  ["a name that is no text (MSG-9)", [{ ...user, name: 5 }], "invalid_type", "messages[0].name"],
];

/** Messages that the model `test-chat` of the service accepts, and others that are rejected. */
export function describeMessageValues(start: () => Promise<RunningService>): void {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await start();
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(good)("%s is accepted", async (_, messages) => {
    const { status, text } = await api.chat({ messages });
    expect({ status, text }).toMatchObject({ status: 200 });
  });

  it.each(bad)("%s is rejected with its location", async (_, messages, code, param) => {
    expectError(await api.chat({ messages }), 400, code, param);
  });

  it("the rejection contains the word tool_calls, by which LangChain recognizes it (MSG-7)", async () => {
    expect((await api.chat({ messages: [calls("a"), user] })).json.error.message).toContain("tool_calls");
    expect((await api.chat({ messages: [result("a")] })).json.error.message).toContain("tool_calls");
  });
}
