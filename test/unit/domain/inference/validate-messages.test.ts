import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateChatCompletion } from "../../../../src/domain/inference/validate-chat.js";
import { chat, outcome, refusal, says, text } from "./params.js";

type MessageInit = MessageInitShape<typeof MessageSchema>;

const check = (...messages: MessageInit[]): string =>
  outcome(() => validateChatCompletion(chat({ messages }), defaultLimits));
const calls = (...ids: string[]): MessageInit => ({
  role: Role.ASSISTANT,
  toolCalls: ids.map((id) => ({ id, function: { name: "f", argumentsJson: "{}" } })),
});
const answers = (toolCallId: string): MessageInit => ({ role: Role.TOOL, toolCallId, content: [text("42")] });

describe("validateMessages", () => {
  it("every role of the contract is accepted; others are rejected with their path (MSG-1)", () => {
    for (const role of [Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT]) {
      expect(check({ role, content: [text("x")] })).toBe("accepted");
    }
    expect(check({ role: Role.FUNCTION, name: "f", content: [text("x")] })).toBe("accepted");
    expect(check(says("x"), { content: [text("x")] })).toBe("invalid_value messages[1].role");
    expect(check({ role: 99 as Role, content: [text("x")] })).toBe("invalid_value messages[0].role");
  });

  it("accepts several text parts in messages of every role (MSG-2)", () => {
    expect(check({ role: Role.SYSTEM, content: [text("a"), text("b")] }, says("x"))).toBe("accepted");
  });

  it("refusals are allowed in assistant messages only, and an empty part is rejected (MSG-3)", () => {
    const refused: MessageInit["content"] = [{ part: { case: "refusal", value: "no" } }];
    expect(check({ role: Role.ASSISTANT, content: refused })).toBe("accepted");
    expect(check({ role: Role.USER, content: refused })).toBe("invalid_value messages[0].content[0]");
    expect(check({ role: Role.USER, content: [text("a"), {}] })).toBe("invalid_value messages[0].content[1]");
  });

  it("rejects unknown image details and audio formats (MSG-3)", () => {
    const image = (url: string, detail?: string): string =>
      check({
        role: Role.USER,
        content: [{ part: { case: "imageUrl", value: detail === undefined ? { url } : { url, detail } } }],
      });
    expect(image("data:image/png;base64,AA==", "low")).toBe("accepted");
    expect(image("https://example.com/a.png")).toBe("accepted");
    expect(image("data:image/png;base64,AA==", "huge")).toBe("invalid_value messages[0].content[0].image_url.detail");
    const sound: MessageInit["content"] = [{ part: { case: "inputAudio", value: { data: "AA==", format: "ogg" } } }];
    expect(check({ role: Role.USER, content: sound })).toBe("invalid_value messages[0].content[0].input_audio.format");
  });

  it("the URL of an image is a data: or an http(s) URL (MSG-4)", () => {
    for (const url of ["file:///etc/passwd", "", "ftp://x/y"]) {
      const content: MessageInit["content"] = [{ part: { case: "imageUrl", value: { url } } }];
      expect(check({ role: Role.USER, content })).toBe("invalid_value messages[0].content[0].image_url.url");
    }
  });

  it("content may be absent only if the message has tool_calls, and empty text counts as content (MSG-5)", () => {
    expect(check(calls("c1"), answers("c1"))).toBe("accepted");
    expect(check({ role: Role.ASSISTANT })).toBe("missing_required_parameter messages[0].content");
    expect(check({ role: Role.USER })).toBe("missing_required_parameter messages[0].content");
    expect(check(says(""))).toBe("accepted");
  });

  it("accepts any text as the arguments of earlier tool calls, but requires their ids and names (MSG-6)", () => {
    const broken: MessageInit = {
      role: Role.ASSISTANT,
      toolCalls: [{ id: "c", function: { name: "f", argumentsJson: "{not json" } }],
    };
    expect(check(broken, answers("c"))).toBe("accepted");
    expect(check({ role: Role.ASSISTANT, toolCalls: [{ id: "", function: { name: "f" } }] })).toBe(
      "missing_required_parameter messages[0].tool_calls[0].id",
    );
    expect(check({ role: Role.ASSISTANT, toolCalls: [{ id: "c" }] })).toBe(
      "missing_required_parameter messages[0].tool_calls[0].function.name",
    );
    expect(check({ ...says("x"), ...{ toolCalls: [{ id: "c", function: { name: "f" } }] } })).toBe(
      "invalid_value messages[0].tool_calls",
    );
  });

  it("requires the id of a tool call in a tool message (MSG-7)", () => {
    expect(check(calls("c1"), { role: Role.TOOL, content: [text("x")] })).toBe(
      "missing_required_parameter messages[1].tool_call_id",
    );
    expect(check(calls("c1"), answers("c2"))).toBe("invalid_tool_messages messages[1].tool_call_id");
    expect(check(says("x"), answers("c1"))).toBe("invalid_tool_messages messages[1].tool_call_id");
  });

  it("requires the result of every tool call before the next other message (MSG-7)", () => {
    expect(check(says("x"), calls("c1", "c2"), answers("c2"), answers("c1"), says("y"))).toBe("accepted");
    expect(check(calls("c1", "c2"), answers("c1"), says("y"))).toBe("invalid_tool_messages messages[0].tool_calls");
    expect(check(says("x"), calls("c1"))).toBe("invalid_tool_messages messages[1].tool_calls");
  });

  it("a result for a call of an earlier turn is rejected (MSG-7)", () => {
    expect(check(calls("c1"), answers("c1"), says("y"), answers("c1"))).toBe(
      "invalid_tool_messages messages[3].tool_call_id",
    );
  });

  it("the error messages about missing calls and missing results contain the word tool_calls (MSG-7)", () => {
    for (const messages of [
      [calls("c1"), says("y")],
      [calls("c1"), answers("c2")],
    ]) {
      expect(refusal(() => validateChatCompletion(chat({ messages }), defaultLimits))?.message).toContain("tool_calls");
    }
  });

  it("ids of tool calls may have at most 256 characters (MSG-8)", () => {
    const id = (chars: number): string => "c".repeat(chars);
    expect(check(calls(id(256)), answers(id(256)))).toBe("accepted");
    expect(check(calls(id(257)), answers(id(257)))).toBe("string_above_max_length messages[0].tool_calls[0].id");
  });

  it("a name is optional, at most 512 characters, and required for a function's message (MSG-9)", () => {
    expect(check({ ...says("x"), name: "Ada" })).toBe("accepted");
    expect(check({ ...says("x"), name: "n".repeat(513) })).toBe("string_above_max_length messages[0].name");
    expect(check({ role: Role.FUNCTION, content: [text("x")] })).toBe("missing_required_parameter messages[0].name");
  });

  it("several system messages are accepted at any position (MSG-10)", () => {
    const system: MessageInit = { role: Role.SYSTEM, content: [text("s")] };
    expect(check(says("x"), system, system)).toBe("accepted");
  });
});
