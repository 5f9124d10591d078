import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role, ToolSchema } from "../../../../../gen/unified/inference/v1/chat_pb.js";
import {
  templateVariables,
  toTemplateMessages,
  toTemplateTools,
} from "../../../../../src/engines/llama/chat/template-input.js";

function message(init: MessageInitShape<typeof MessageSchema>) {
  return create(MessageSchema, init);
}

function text(value: string) {
  return { part: { case: "text", value } } as const;
}

describe("toTemplateMessages", () => {
  it("converts every role, and joins text parts without a separator (MSG-1, MSG-2)", () => {
    const roles = [Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT, Role.TOOL, Role.FUNCTION];
    const messages = toTemplateMessages(roles.map((role) => message({ role, content: [text("a "), text("b")] })));
    expect(messages.map(({ role }) => role)).toEqual(["system", "system", "user", "assistant", "tool", "tool"]);
    expect(new Set(messages.map(({ content }) => content))).toEqual(new Set(["a b"]));
  });

  it("converts arguments of calls to values, and to text if they are not a JSON object (MSG-6)", () => {
    const call = (id: string, argumentsJson: string) => ({ id, function: { name: "f", argumentsJson } });
    const [first] = toTemplateMessages([
      message({
        role: Role.ASSISTANT,
        toolCalls: [call("a", '{"x":1}'), call("b", "{x"), call("c", "[1]"), call("d", "")],
      }),
    ]);
    expect(first?.content).toBe("");
    expect(first?.tool_calls?.map((made) => made.function.arguments)).toEqual([{ x: 1 }, "{x", "[1]", {}]);
  });

  it("keeps names and the ids of answered calls (MSG-9)", () => {
    expect(
      toTemplateMessages([message({ role: Role.TOOL, content: [text("4")], toolCallId: "a", name: "f" })]),
    ).toEqual([{ role: "tool", content: "4", name: "f", tool_call_id: "a" }]);
  });

  it("refuses parts that are not text with an error that names them", () => {
    const image = { part: { case: "imageUrl", value: { url: "data:," } } } as const;
    const messages = [message({ role: Role.USER, content: [text("a"), image] })];
    expect(() => toTemplateMessages(messages)).toThrow(
      expect.objectContaining({ code: "unsupported", param: "messages[0].content[1]" }),
    );
  });
});

describe("toTemplateTools", () => {
  it("a tool without parameters takes no arguments (TOOL-1)", () => {
    expect(toTemplateTools([create(ToolSchema, { function: { name: "f", description: "d", strict: true } })])).toEqual([
      {
        type: "function",
        function: { name: "f", description: "d", parameters: { type: "object", properties: {} }, strict: true },
      },
    ]);
  });

  it("refuses parameters that are not an object", () => {
    const tools = [create(ToolSchema, { function: { name: "f", parametersJson: "[]" } })];
    expect(() => toTemplateTools(tools)).toThrow(
      expect.objectContaining({ code: "bad_schema", param: "tools[0].function.parameters" }),
    );
  });
});

describe("templateVariables", () => {
  it("reasoning_effort enables thinking, which is off by default (CHAT-24)", () => {
    expect(templateVariables({})).toEqual({ enable_thinking: false });
    expect(templateVariables({ reasoningEffort: "none" })).toEqual({
      enable_thinking: false,
      reasoning_effort: "none",
    });
    expect(templateVariables({ reasoningEffort: "minimal" })).toMatchObject({ enable_thinking: false });
    expect(templateVariables({ reasoningEffort: "low" })).toMatchObject({ enable_thinking: true });
    expect(templateVariables({ reasoningEffort: "high" })).toMatchObject({ enable_thinking: true });
  });

  it("variables of the caller take precedence", () => {
    const variables = templateVariables({
      reasoningEffort: "none",
      chatTemplateKwargsJson: '{"enable_thinking":true,"x":[1]}',
    });
    expect(variables).toEqual({ enable_thinking: true, reasoning_effort: "none", x: [1] });
  });
});
