import { describe, expect, it } from "vitest";
import type { GenerateRequest } from "../../../../../src/domain/engine/engine.js";
import { ChatTemplate } from "../../../../../src/engines/llama/chat/chat-template.js";
import { type OutputPlan, planOutput } from "../../../../../src/engines/llama/chat/output-plan.js";
import type { ChildInput, TemplateTool } from "../../../../../src/engines/llama/protocol/protocol.js";
import { hermesTemplate, smallTemplate, special, weatherTool } from "../text/templates.js";
import { countedIds, type ReadOutput, readOutput } from "./read-output.js";

type ChatInput = Extract<ChildInput, { type: "chat" }>;
type Format = GenerateRequest["format"];

const hermes = new ChatTemplate(hermesTemplate, special);
const plain = new ChatTemplate(smallTemplate, special);
const timeTool: TemplateTool = { type: "function", function: { name: "get_time", parameters: {}, strict: false } };
const weatherCall = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
const timeCall = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>';
const schemaFormat: Format = {
  type: "json_schema",
  name: "answer",
  schemaJson: '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}',
  strict: true,
};

function chat(toolChoice: ChatInput["toolChoice"], changes: Partial<ChatInput> = {}): ChatInput {
  const messages = [{ role: "user", content: "Hi" }] as const;
  const tools = [weatherTool, timeTool];
  return { type: "chat", messages, tools, toolChoice, parallelToolCalls: true, templateVariables: {}, ...changes };
}

function plan(input: ChildInput, format?: Format, template: ChatTemplate | null = hermes): OutputPlan {
  return planOutput(input, format, template, countedIds());
}

/** Reads the text in one piece and by characters, and expects equal results except for the ids of calls. */
function read(made: () => OutputPlan, text: string, cut = false): ReadOutput {
  const whole = readOutput(made().newReader(), [text], cut);
  expect(readOutput(made().newReader(), [...text], cut)).toEqual(whole);
  return whole;
}

describe("planOutput: tools", () => {
  it("with the choice none, tools are not in the prompt and calls are text (TOOL-4)", () => {
    const made = () => plan(chat({ mode: "none" }));
    expect(made()).toMatchObject({ templateTools: [], extraSystem: null, grammar: null });
    expect(read(made, weatherCall)).toMatchObject({ text: weatherCall, calls: [], reason: "stop" });
  });

  it("with the choice auto, tools are in the prompt and the answer is unconstrained", () => {
    const made = () => plan(chat({ mode: "auto" }));
    expect(made()).toMatchObject({ templateTools: [weatherTool, timeTool], extraSystem: null, grammar: null });
    expect(read(made, `Hm.\n${weatherCall}\n${timeCall}`)).toMatchObject({
      text: "Hm.",
      calls: [{ name: "get_weather", args: '{"city": "Oslo"}' }, { name: "get_time" }],
      reason: "tool_calls",
    });
    expect(read(made, `<think>\nFirst ${timeCall}\n</think>\n\n${weatherCall}`)).toMatchObject({
      reasoning: `First ${timeCall}`,
      text: "",
      calls: [{ name: "get_weather" }],
    });
  });

  it("with the choice auto, a template without tools gives an answer in text", () => {
    const made = () => plan(chat({ mode: "auto" }), undefined, plain);
    expect(made()).toMatchObject({ templateTools: [], extraSystem: null, grammar: null });
    expect(read(made, weatherCall)).toMatchObject({ text: weatherCall, calls: [] });
  });

  it("required and named calls are enforced by a grammar (TOOL-5)", () => {
    const required = () => plan(chat({ mode: "required" }));
    expect(required().templateTools).toEqual([weatherTool, timeTool]);
    expect(required().grammar).toContain("get_time");
    expect(read(required, `${timeCall}\n${weatherCall}`)).toMatchObject({ calls: [{}, {}], reason: "tool_calls" });
    const named = () => plan(chat({ mode: "named", name: "get_weather" }));
    expect(named().templateTools).toEqual([weatherTool]);
    expect(named().grammar).not.toContain("get_time");
    expect(read(named, weatherCall)).toMatchObject({
      calls: [{ name: "get_weather" }],
      reason: "tool_calls",
      fault: null,
    });
  });

  it("adds instructions for a template without tools when a call is forced (TOOL-5)", () => {
    const { templateTools, extraSystem, grammar } = plan(chat({ mode: "required" }), undefined, plain);
    expect(templateTools).toEqual([]);
    expect(extraSystem).toContain('{"name":"get_weather","description":"The weather of a place.","parameters":{');
    expect(extraSystem).toContain("get_time");
    expect(grammar).toContain("get_time");
    const named = plan(chat({ mode: "named", name: "get_time" }), undefined, plain);
    expect(named.extraSystem).not.toContain("get_weather");
  });

  it("refuses the choice of a tool that is not offered (TOOL-5)", () => {
    expect(() => plan(chat({ mode: "named", name: "other" }))).toThrow(
      expect.objectContaining({ code: "bad_input", param: "tool_choice" }),
    );
  });

  it("allows at most one call without parallel calls, and with a named function (TOOL-9)", () => {
    const parallelToolCalls = false;
    for (const toolChoice of [{ mode: "auto" }, { mode: "required" }] as const) {
      const made = () => plan(chat(toolChoice, { parallelToolCalls }));
      expect(read(made, `${timeCall}\n${weatherCall}`)).toMatchObject({
        calls: [{ name: "get_time" }],
        reason: "tool_calls",
      });
    }
    expect(plan(chat({ mode: "required" })).grammar).toContain("{0,15}");
    expect(plan(chat({ mode: "required" }, { parallelToolCalls })).grammar).not.toContain("{0,15}");
    expect(plan(chat({ mode: "named", name: "get_time" })).grammar).not.toContain("{0,15}");
  });

  it.each(["auto", "required"] as const)(
    "with the choice %s, refuses a strict schema that cannot be enforced (TOOL-14)",
    (mode) => {
      const tool = (parameters: object): TemplateTool => ({
        type: "function",
        function: { name: "f", parameters, strict: true },
      });
      for (const parameters of [
        { type: "object", properties: { a: { not: {} } } },
        { type: "array" },
        { type: ["object", "null"] },
      ]) {
        expect(() => plan(chat({ mode }, { tools: [timeTool, tool(parameters)] }))).toThrow(
          expect.objectContaining({ code: "bad_schema", param: "tools[1].function.parameters" }),
        );
      }
    },
  );

  it("accepts a schema of any type for a tool that is not strict, but arguments must still be an object", () => {
    const tool: TemplateTool = {
      type: "function",
      function: { name: "f", parameters: { type: "string" }, strict: false },
    };
    expect(plan(chat({ mode: "required" }, { tools: [tool] })).grammar).toContain('\\"arguments\\"');
  });
});

describe("planOutput: formats", () => {
  it("enforces json_object by a grammar and checks the answer (RF-1)", () => {
    const made = () => plan(chat({ mode: "none" }), { type: "json_object" });
    expect(made().grammar).not.toBeNull();
    expect(read(made, '{"a": 1}')).toMatchObject({ text: '{"a": 1}', reason: "stop", fault: null });
    expect(read(made, "[1]").fault).toContain("object");
    expect(read(made, "{").fault).toContain("not JSON");
    expect(read(made, "{", true)).toMatchObject({ text: "{", reason: "length", fault: null });
  });

  it("enforces json_schema by a grammar and checks the answer, for chats and plain prompts (RF-3)", () => {
    for (const input of [chat({ mode: "none" }), { type: "text", text: "Say" }] as const) {
      const made = () => plan(input, schemaFormat);
      expect(made().grammar).not.toBeNull();
      expect(read(made, '{"n": 7}')).toMatchObject({ text: '{"n": 7}', fault: null });
      expect(read(made, '{"n": "7"}').fault).not.toBeNull();
    }
  });

  it("refuses an unusable schema with an error that names the field (RF-4)", () => {
    const format: Format = { type: "json_schema", name: "x", schemaJson: '{"type":"object","not":{}}', strict: true };
    for (const mode of ["none", "auto"] as const) {
      expect(() => plan(chat({ mode }), format)).toThrow(
        expect.objectContaining({ code: "bad_schema", param: "response_format" }),
      );
    }
  });

  it("applies the schema to the final text and not to tool calls (RF-6)", () => {
    const made = () => plan(chat({ mode: "auto" }), schemaFormat);
    expect(made()).toMatchObject({ templateTools: [weatherTool, timeTool] });
    expect(made().grammar).toContain("get_time");
    expect(read(made, '{"n": 7}')).toMatchObject({ text: '{"n": 7}', calls: [], reason: "stop", fault: null });
    expect(read(made, '{"n": "7"}').fault).not.toBeNull();
    expect(read(made, weatherCall)).toMatchObject({
      text: "",
      calls: [{ name: "get_weather" }],
      reason: "tool_calls",
      fault: null,
    });
  });

  it("leaves an unconstrained answer to a plain prompt unchanged", () => {
    const made = () => plan({ type: "text", text: "Say" });
    expect(made()).toMatchObject({ templateTools: [], extraSystem: null, grammar: null });
    expect(read(made, `<think>x</think>\n${weatherCall}`)).toMatchObject({
      reasoning: "",
      text: `<think>x</think>\n${weatherCall}`,
    });
  });
});
