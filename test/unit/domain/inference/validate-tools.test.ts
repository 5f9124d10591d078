import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ToolChoice_Mode, type ToolChoiceSchema } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateChatCompletion } from "../../../../src/domain/inference/validate-chat.js";
import { chat, outcome } from "./params.js";

const check = (changes: Parameters<typeof chat>[0]): string =>
  outcome(() => validateChatCompletion(chat(changes), defaultLimits));
const tool = (name: string, parametersJson?: string) => ({
  function: parametersJson === undefined ? { name } : { name, parametersJson },
});
const choose = (choice: MessageInitShape<typeof ToolChoiceSchema>["choice"], ...names: string[]): string =>
  check({ tools: names.map((name) => tool(name)), toolChoice: choice === undefined ? {} : { choice } });
const parameters = "tools[0].function.parameters";

describe("validateTools", () => {
  it("names consist of 1 to 64 letters, digits, _ and - (TOOL-1)", () => {
    expect(check({ tools: [tool("get_Weather-2")] })).toBe("accepted");
    expect(check({ tools: [tool("a"), tool("a b")] })).toBe("invalid_value tools[1].function.name");
    expect(check({ tools: [tool("n".repeat(65))] })).toBe("invalid_value tools[0].function.name");
    expect(check({ tools: [tool("")] })).toBe("missing_required_parameter tools[0].function.name");
    expect(check({ tools: [{}] })).toBe("missing_required_parameter tools[0].function");
  });

  it("accepts at most 128 tools (TOOL-1)", () => {
    const tools = (count: number) => Array.from({ length: count }, (_, i) => tool(`f${i}`));
    expect(check({ tools: tools(128) })).toBe("accepted");
    expect(check({ tools: tools(129) })).toBe("array_above_max_length tools");
  });

  it("a forced function must be one of the tools (TOOL-5)", () => {
    expect(choose({ case: "function", value: "f" }, "f")).toBe("accepted");
    expect(choose({ case: "function", value: "g" }, "f")).toBe("invalid_value tool_choice");
  });

  it("allowed tools need a mode and names of given tools (TOOL-6)", () => {
    const allowed = (mode: ToolChoice_Mode, ...names: string[]): string =>
      choose({ case: "allowed", value: { mode, names } }, "f", "g");
    expect(allowed(ToolChoice_Mode.AUTO, "g")).toBe("accepted");
    expect(allowed(ToolChoice_Mode.REQUIRED, "f", "g")).toBe("accepted");
    expect(allowed(ToolChoice_Mode.NONE, "f")).toBe("invalid_value tool_choice");
    expect(allowed(ToolChoice_Mode.AUTO, "h")).toBe("invalid_value tool_choice");
    expect(allowed(ToolChoice_Mode.AUTO)).toBe("empty_array tool_choice.allowed_tools.tools");
  });

  it("without tools, a tool_choice of none or auto is ignored; required and a named function are rejected (TOOL-8)", () => {
    expect(choose({ case: "mode", value: ToolChoice_Mode.NONE })).toBe("accepted");
    expect(choose({ case: "mode", value: ToolChoice_Mode.AUTO })).toBe("accepted");
    expect(check({ parallelToolCalls: false })).toBe("accepted");
    expect(choose({ case: "mode", value: ToolChoice_Mode.REQUIRED })).toBe("invalid_value tool_choice");
    expect(choose({ case: "function", value: "f" })).toBe("invalid_value tool_choice");
  });

  it("rejects unknown modes", () => {
    expect(choose({ case: "mode", value: ToolChoice_Mode.UNSPECIFIED }, "f")).toBe("invalid_value tool_choice");
    expect(choose({ case: "mode", value: 9 as ToolChoice_Mode }, "f")).toBe("invalid_value tool_choice");
  });

  it("a schema is a JSON object (SEC-10)", () => {
    expect(check({ tools: [tool("f", '{"type":"object"}')] })).toBe("accepted");
    for (const schema of ["", "{", "[]", "null", '"x"', "true"]) {
      expect(check({ tools: [tool("f", schema)] })).toBe(`invalid_function_parameters ${parameters}`);
    }
  });

  it("all schemas of a request together have at most 64 KiB (SEC-10)", () => {
    const schema = JSON.stringify({ description: "x".repeat(40_000) });
    expect(check({ tools: [tool("f", schema)] })).toBe("accepted");
    expect(check({ tools: [tool("f", schema), tool("g", schema)] })).toBe(
      "invalid_function_parameters tools[1].function.parameters",
    );
  });

  it("a schema has at most 2,000 values and 32 levels (SEC-10)", () => {
    const wide = (count: number): string => JSON.stringify({ enum: Array.from({ length: count }, (_, i) => i) });
    expect(check({ tools: [tool("f", wide(1_998))] })).toBe("accepted");
    expect(check({ tools: [tool("f", wide(1_999))] })).toBe(`invalid_function_parameters ${parameters}`);
    const deep = (levels: number): string => `${'{"a":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`;
    expect(check({ tools: [tool("f", deep(32))] })).toBe("accepted");
    expect(check({ tools: [tool("f", deep(33))] })).toBe(`invalid_function_parameters ${parameters}`);
    expect(check({ tools: [tool("f", deep(10_000))] })).toBe(`invalid_function_parameters ${parameters}`);
  });

  it("a schema may refer only to itself (SEC-10)", () => {
    const refer = (ref: unknown): string => check({ tools: [tool("f", JSON.stringify({ items: { $ref: ref } }))] });
    expect(refer("#/$defs/x")).toBe("accepted");
    expect(refer({ type: "string" })).toBe("accepted");
    for (const ref of ["http://127.0.0.1/x", "other.json", "//x", "file:///etc/passwd"]) {
      expect(refer(ref)).toBe(`invalid_function_parameters ${parameters}`);
    }
  });
});
