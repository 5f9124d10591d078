import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, expectError, user } from "./api.js";

const call = (id: string, args: unknown = "{}") => ({ id, type: "function", function: { name: "f", arguments: args } });
const calls = (...ids: string[]) => ({ role: "assistant", content: null, tool_calls: ids.map((id) => call(id)) });
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "42" });
const parts = (...list: unknown[]) => ({ role: "user", content: list });

const good: readonly (readonly [title: string, messages: readonly object[]])[] = [
  ...["developer", "system", "user", "assistant"].map(
    (role) => [`MSG-1 DEC-4: ${role}`, [{ role, content: "x" }]] as const,
  ),
  ["MSG-1 DEC-4: function", [{ role: "function", name: "f", content: "x" }]],
  ["MSG-1 MSG-7: tool", [calls("a"), result("a")]],
  [
    "MSG-2: parts for every role",
    ["developer", "system", "user", "assistant"].map((role) => ({ role, content: [{ type: "text", text: "x" }] })),
  ],
  ["MSG-2: parts for a tool", [calls("a"), { ...result("a"), content: [{ type: "text", text: "42" }] }]],
  ["MSG-3: a breakpoint of a cache on a part", [parts({ type: "text", text: "x", prompt_cache_breakpoint: { a: 1 } })]],
  ["MSG-3: a refusal of the assistant", [{ role: "assistant", content: [{ type: "refusal", refusal: "no" }] }]],
  ["MSG-5: null content beside calls", [calls("a"), result("a")]],
  ["MSG-5: absent content beside calls", [{ role: "assistant", tool_calls: [call("a")] }, result("a")]],
  [
    "MSG-5: empty content",
    [
      { role: "assistant", content: "" },
      { role: "user", content: "" },
    ],
  ],
  ["MSG-6: arguments that are no JSON", [{ role: "assistant", tool_calls: [call("a", "{no")] }, result("a")]],
  ["MSG-7: answers in any order, twice, and text after them", [calls("a", "b"), result("b"), result("a"), user]],
  ["MSG-8: an id of 256 characters", [calls("i".repeat(256)), result("i".repeat(256))]],
  [
    "MSG-9: names",
    [
      { ...user, name: "n".repeat(512) },
      { role: "system", content: "x", name: null },
    ],
  ],
  [
    "MSG-10: system messages anywhere",
    [user, { role: "system", content: "x" }, user, { role: "system", content: "y" }],
  ],
  ["MSG-12: reasoning sent back", [{ role: "assistant", content: "x", reasoning_content: "r", reasoning: "r" }, user]],
];

const bad: readonly (readonly [title: string, messages: readonly unknown[], code: ErrorCode, param: string])[] = [
  ["MSG-1 GEN-10: an unknown role", [user, { role: "robot", content: "x" }], "invalid_value", "messages[1].role"],
  ["MSG-1: no role", [{ content: "x" }], "missing_required_parameter", "messages[0].role"],
  ["GEN-8: a role that is no text", [{ role: 1, content: "x" }], "invalid_type", "messages[0].role"],
  ["GEN-8: a message that is no object", ["Hi"], "invalid_type", "messages[0]"],
  ["GEN-8: a message that is null", [null], "invalid_type", "messages[0]"],
  ["MSG-2: no parts", [parts()], "empty_array", "messages[0].content"],
  ["MSG-2: content of another type", [{ role: "user", content: 5 }], "invalid_type", "messages[0].content"],
  [
    "MSG-2: content of one part",
    [{ role: "user", content: { type: "text", text: "x" } }],
    "invalid_type",
    "messages[0].content",
  ],
  ["MSG-5: a user without content", [{ role: "user" }], "missing_required_parameter", "messages[0].content"],
  ["MSG-5: a user with null", [{ role: "user", content: null }], "missing_required_parameter", "messages[0].content"],
  [
    "MSG-5: an assistant with neither",
    [{ role: "assistant", content: null }],
    "missing_required_parameter",
    "messages[0].content",
  ],
  ["MSG-3: a part that is a text", [parts("x")], "invalid_type", "messages[0].content[0]"],
  ["MSG-3: a part without type", [parts({ text: "x" })], "missing_required_parameter", "messages[0].content[0].type"],
  [
    "MSG-3 GEN-10: an unknown type",
    [parts({ type: "text", text: "" }, { type: "video" })],
    "invalid_value",
    "messages[0].content[1].type",
  ],
  [
    "MSG-3: a text part without text",
    [parts({ type: "text" })],
    "missing_required_parameter",
    "messages[0].content[0].text",
  ],
  [
    "MSG-3: a refusal of the user",
    [parts({ type: "refusal", refusal: "no" })],
    "invalid_value",
    "messages[0].content[0]",
  ],
  [
    "MSG-3: an image as a text",
    [parts({ type: "image_url", image_url: "data:," })],
    "invalid_type",
    "messages[0].content[0].image_url",
  ],
  [
    "MSG-3: an image without url",
    [parts({ type: "image_url", image_url: {} })],
    "missing_required_parameter",
    "messages[0].content[0].image_url.url",
  ],
  [
    "MSG-4: an image by value, which this model cannot see",
    [parts({ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } })],
    "unsupported_value",
    "messages[0].content[0]",
  ],
  [
    "MSG-4: an image by address",
    [user, parts({ type: "text", text: "x" }, { type: "image_url", image_url: { url: "http://127.0.0.1:9/x" } })],
    "unsupported_value",
    "messages[1].content[1]",
  ],
  [
    "MSG-3: a sound",
    [parts({ type: "input_audio", input_audio: { data: "AA==", format: "wav" } })],
    "unsupported_value",
    "messages[0].content[0]",
  ],
  ["MSG-3: a file", [parts({ type: "file", file: { file_id: "f" } })], "unsupported_value", "messages[0].content[0]"],
  [
    "MSG-6: a call without id",
    [{ role: "assistant", tool_calls: [{ type: "function", function: { name: "f", arguments: "" } }] }],
    "missing_required_parameter",
    "messages[0].tool_calls[0].id",
  ],
  [
    "MSG-6: a call without type",
    [{ role: "assistant", tool_calls: [{ id: "a", function: { name: "f", arguments: "" } }] }],
    "missing_required_parameter",
    "messages[0].tool_calls[0].type",
  ],
  [
    "MSG-6 TOOL-7: a custom call",
    [{ role: "assistant", tool_calls: [{ id: "a", type: "custom" }] }],
    "unsupported_value",
    "messages[0].tool_calls[0].type",
  ],
  [
    "MSG-6 TOOL-10: arguments that are no text",
    [{ role: "assistant", tool_calls: [call("a", {})] }],
    "invalid_type",
    "messages[0].tool_calls[0].function.arguments",
  ],
  [
    "MSG-6: a call of the user",
    [{ role: "user", content: "x", tool_calls: [call("a")] }],
    "invalid_value",
    "messages[0].tool_calls",
  ],
  ["MSG-7: a call without answer", [user, calls("a"), user], "invalid_tool_messages", "messages[1].tool_calls"],
  [
    "MSG-7: one of two calls without answer",
    [calls("a", "b"), result("a")],
    "invalid_tool_messages",
    "messages[0].tool_calls",
  ],
  ["MSG-7: an answer to nothing", [user, result("a")], "invalid_tool_messages", "messages[1].tool_call_id"],
  ["MSG-7: an answer to another call", [calls("a"), result("b")], "invalid_tool_messages", "messages[1].tool_call_id"],
  [
    "MSG-7: an answer without id",
    [calls("a"), { role: "tool", content: "x" }],
    "missing_required_parameter",
    "messages[1].tool_call_id",
  ],
  [
    "MSG-7: an answer without content",
    [calls("a"), { role: "tool", tool_call_id: "a" }],
    "missing_required_parameter",
    "messages[1].content",
  ],
  [
    "MSG-8: an id of 257 characters",
    [calls("i".repeat(257))],
    "string_above_max_length",
    "messages[0].tool_calls[0].id",
  ],
  [
    "MSG-9: a name of 513 characters",
    [{ ...user, name: "n".repeat(513) }],
    "string_above_max_length",
    "messages[0].name",
  ],
  ["MSG-9: a name that is no text", [{ ...user, name: 5 }], "invalid_type", "messages[0].name"],
];

describe("messages of a chat request", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService();
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(good)("%s is taken", async (_, messages) => {
    const { status, text } = await api.chat({ messages });
    expect({ status, text }).toMatchObject({ status: 200 });
  });

  it.each(bad)("%s is refused where it stands", async (_, messages, code, param) => {
    expectError(await api.chat({ messages }), 400, code, param);
  });

  it("MSG-7: LangChain knows the refusal by the word tool_calls", async () => {
    expect((await api.chat({ messages: [calls("a"), user] })).json.error.message).toContain("tool_calls");
    expect((await api.chat({ messages: [result("a")] })).json.error.message).toContain("tool_calls");
  });
});
