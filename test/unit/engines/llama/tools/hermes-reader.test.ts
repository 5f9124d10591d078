import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HermesOptions, HermesReader } from "../../../../../src/engines/llama/chat/hermes-reader.js";
import { CallableTools } from "../../../../../src/engines/llama/chat/tool-calls.js";
import type { TemplateTool } from "../../../../../src/engines/llama/protocol/protocol.js";
import { rounds } from "../../../../support/tier.js";
import { countedIds, type ReadOutput, readOutput } from "./read-output.js";

function tool(name: string, strict = false): TemplateTool {
  const parameters = {
    type: "object",
    properties: { n: { type: "integer" } },
    required: ["n"],
    additionalProperties: false,
  };
  return { type: "function", function: { name, parameters, strict } };
}

function newReader(options: Partial<HermesOptions> = {}): HermesReader {
  const tools = new CallableTools([tool("a"), tool("b"), tool("strict", true)]);
  return new HermesReader({ tools, nextCallId: countedIds(), parallel: true, forced: false, ...options });
}

function call(json: string): string {
  return `<tool_call>\n${json}\n</tool_call>`;
}

/** Reads the text in one piece and by characters, and expects equal results. */
function read(text: string, options: Partial<HermesOptions> & { cut?: boolean } = {}): ReadOutput {
  const whole = readOutput(newReader(options), [text], options.cut);
  expect(readOutput(newReader(options), [...text], options.cut)).toEqual(whole);
  return whole;
}

describe("HermesReader with optional calls", () => {
  it("leaves text without calls unchanged", () => {
    expect(read(" Hello <tool> world.\n")).toEqual({
      text: " Hello <tool> world.\n",
      reasoning: "",
      calls: [],
      reason: "stop",
      fault: null,
    });
  });

  it("separates calls from the text, each with its own id (TOOL-12)", () => {
    const text = `Let me see.\n\n${call('{"name": "a", "arguments": {"n": 1}}')}\n${call('{"name":"b","arguments":{ "x" : "é" }}')}\n`;
    expect(read(text)).toEqual({
      text: "Let me see.",
      reasoning: "",
      calls: [
        { id: "call_1", name: "a", args: '{"n": 1}' },
        { id: "call_2", name: "b", args: '{ "x" : "é" }' },
      ],
      reason: "tool_calls",
      fault: null,
    });
  });

  it("streams the arguments", () => {
    const reader = newReader();
    expect(reader.push('<tool_call>\n{"name": "a", "arg')).toEqual([]);
    expect(reader.push('uments": {"city": "Os')).toEqual([
      { type: "tool", index: 0, id: "call_1", name: "a" },
      { type: "tool", index: 0, argsDelta: '{"city": "Os' },
    ]);
    expect(reader.push("lo")).toEqual([{ type: "tool", index: 0, argsDelta: "lo" }]);
    expect(reader.push('"}}\n</tool_')).toEqual([{ type: "tool", index: 0, argsDelta: '"}' }]);
    expect(reader.push("call>")).toEqual([]);
  });

  it("accepts the name after the arguments, and ignores other members", () => {
    const { calls } = read(call('{"id": [1, {"name": "b"}], "arguments": {"name": "b"}, "x": 1.5, "name": "a"}'));
    expect(calls).toEqual([{ id: "call_1", name: "a", args: '{"name": "b"}' }]);
  });

  it("gives a call without arguments the arguments {} (TOOL-11)", () => {
    expect(read(call('{"name": "a"}'))).toMatchObject({ calls: [{ name: "a", args: "{}" }], reason: "tool_calls" });
    expect(read(call('{"name": "a", "arguments": {}}'))).toMatchObject({ calls: [{ name: "a", args: "{}" }] });
  });

  it("ends a call at the end of its JSON, not at a marker inside of a string", () => {
    const args = '{"text": "</tool_call>\\n<tool_call>{\\"name\\": \\"b\\"}"}';
    expect(read(call(`{"name": "a", "arguments": ${args}}`))).toMatchObject({ text: "", calls: [{ name: "a", args }] });
  });

  it("needs no closing marker", () => {
    const text =
      '<tool_call>{"name": "a", "arguments": {"n": 1}} <tool_call>{"name": "b", "arguments": {"n": 2}}</tool_call>Done.';
    expect(read(text)).toMatchObject({ text: "Done.", calls: [{ name: "a" }, { name: "b" }], reason: "tool_calls" });
  });

  it.each([
    ["no JSON", "<tool_call>\nI could call a.\n</tool_call>"],
    ["a list", call("[1]")],
    ["JSON that breaks off", call('{"name": "a", arguments')],
    ["a tool that does not exist", call('{"name": "other", "arguments": {"text": "<tool_call>"}}')],
    ["no name", call('{"arguments": {"n": 1}}')],
    ["a name that is not a string", call('{"name": 7, "arguments": {"n": 1}}')],
    ["arguments that are not an object", call('{"name": "a", "arguments": "{}"}')],
    ["two names", call('{"name": "a", "name": "b"}')],
    ["only the marker", "<tool_call>"],
    ["half a marker", "Write <tool_ca"],
    ["half a call", '<tool_call>{"name": "a"'],
  ])("returns %s between the markers as text", (_, text) => {
    expect(read(text)).toMatchObject({ text, calls: [], reason: "stop", fault: null });
  });

  it("reads calls after text between markers that is not a call", () => {
    const good = call('{"name": "a", "arguments": {"n": 1}}');
    const bad = call('{"name": "other", "arguments": {}}');
    expect(read(`${bad}\n${good}`)).toMatchObject({ text: bad, calls: [{ name: "a" }], reason: "tool_calls" });
    expect(read(`<tool_call> what? ${good}`)).toMatchObject({ text: "<tool_call> what?", calls: [{ name: "a" }] });
  });

  it("keeps text after calls, but drops white space", () => {
    const made = call('{"name": "a", "arguments": {"n": 1}}');
    expect(read(`${made}\n\n`).text).toBe("");
    expect(read(`${made}\nThat was it.`).text).toBe("\nThat was it.");
  });

  it("returns at most one call if several are not allowed, and is done after it (TOOL-9)", () => {
    const text = `${call('{"name": "a", "arguments": {"n": 1}}')}\n${call('{"name": "b"}')} More.`;
    expect(read(text, { parallel: false })).toMatchObject({ text: "", calls: [{ name: "a" }], reason: "tool_calls" });
    const reader = newReader({ parallel: false });
    reader.push('<tool_call>\n{"name": "a", "arguments": {"n": 1}');
    expect(reader.done).toBe(false);
    reader.push("}");
    expect(reader.done).toBe(true);
    expect(reader.end(true)).toEqual({ parts: [], reason: "tool_calls", fault: null });
  });

  it("returns at most 16 calls", () => {
    const text = Array.from({ length: 20 }, () => call('{"name": "a"}')).join("\n");
    expect(read(text).calls).toHaveLength(16);
  });

  it("returns a partial call if the token limit cuts it, with the finish reason length (TOOL-15)", () => {
    const cut = true;
    expect(read('<tool_call>{"name": "a", "arguments": {"n"', { cut })).toMatchObject({
      calls: [{ name: "a", args: '{"n"' }],
      reason: "length",
      fault: null,
    });
    expect(read('<tool_call>{"name": "a", "argu', { cut })).toMatchObject({
      calls: [{ name: "a", args: "" }],
      reason: "length",
    });
    expect(read('Hm <tool_call>{"na', { cut })).toMatchObject({
      text: 'Hm <tool_call>{"na',
      calls: [],
      reason: "length",
    });
    const one = call('{"name": "a", "arguments": {"n": 1}}');
    expect(read(`${one}\n<tool_call>{"name": "b", "arguments": {`, { cut })).toMatchObject({
      calls: [{ args: '{"n": 1}' }, { args: "{" }],
      reason: "length",
    });
  });

  it("reports arguments that are not JSON or not complete as an error (TOOL-10)", () => {
    expect(read(call(`{"name": "a", "arguments": {"n": 'x'}}`)).fault).toContain("not a JSON object");
    expect(read('<tool_call>{"name": "a", "arguments": {"n"').fault).toContain("ends before");
  });

  it("reports a call that violates a strict schema as an error, and does not check others (TOOL-14)", () => {
    expect(read(call('{"name": "strict", "arguments": {"n": 1}}'))).toMatchObject({
      reason: "tool_calls",
      fault: null,
    });
    expect(read(call('{"name": "strict", "arguments": {"n": "x"}}')).fault).toContain("'strict'");
    expect(read(call('{"name": "strict"}')).fault).toContain("'strict'");
    expect(read(call('{"name": "a", "arguments": {"n": "x"}}')).fault).toBeNull();
  });

  it("reads every mixture of text and calls independently of how it is split", () => {
    const args = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), {
      maxKeys: 3,
      noNullPrototype: true,
    });
    const calls = fc
      .record({ name: fc.constantFrom("a", "b", "other"), arguments: args })
      .map((made) => call(JSON.stringify(made)));
    const words = fc.constantFrom(
      "text ",
      "\n",
      " ".repeat(300),
      "<tool_call>",
      "</tool_call>",
      "<tool_",
      "😀",
      '{"name": "a", ',
      '"arguments": {"n": ',
      "}",
      "1",
    );
    const pieces = fc.array(fc.oneof({ weight: 2, arbitrary: calls }, { weight: 3, arbitrary: words }), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(pieces, fc.array(fc.nat({ max: 40 })), fc.boolean(), fc.boolean(), (list, sizes, cut, parallel) => {
        const text = list.join("");
        const whole = read(text, { parallel, cut });
        expect(readOutput(newReader({ parallel }), split(text, sizes), cut)).toEqual(whole);
        if (whole.calls.length === 0) expect(whole.text).toBe(text);
        if (whole.reason !== "tool_calls" || whole.fault !== null) return;
        for (const made of whole.calls) expect(JSON.parse(made.args)).toBeTypeOf("object");
      }),
      { numRuns: rounds(3_000) },
    );
  });
});

describe("HermesReader with required calls", () => {
  it("ends the answer at a call that repeats an earlier one, and leaves that call out (TOOL-5)", () => {
    const to = (place: string) => call(`{"name": "a", "arguments": {"place": "${place}"}}`);
    const { calls, reason, fault } = read(["Rome", "Rom", "Rome", "Oslo"].map(to).join("\n"), { forced: true });
    expect(calls.map(({ args }) => args)).toEqual(['{"place": "Rome"}', '{"place": "Rom"}']);
    expect({ reason, fault }).toEqual({ reason: "tool_calls", fault: null });
    expect(read(`${to("Rome")}\n${to("Rome")}`).calls).toHaveLength(2);
    const cut = read(`${to("Rome")}\n${to("Rome").slice(0, 50)}`, { forced: true, cut: true });
    expect(cut).toMatchObject({ reason: "length", fault: null });
    expect(cut.calls).toHaveLength(2);
  });

  it("reports an answer without a call as an error, unless it was truncated (TOOL-5)", () => {
    expect(read("", { forced: true }).fault).toContain("required");
    expect(read('<tool_call>\n{"na', { forced: true }).fault).toContain("required");
    for (const text of ["", "<tool_c", '<tool_call>\n{"na']) {
      expect(read(text, { forced: true, cut: true })).toMatchObject({
        text: "",
        calls: [],
        reason: "length",
        fault: null,
      });
    }
  });
});

/** Splits a text between code points into pieces of these sizes, which are used in turn. */
function split(text: string, sizes: readonly number[]): readonly string[] {
  const points = [...text];
  const pieces: string[] = [];
  for (let at = 0, i = 0; at < points.length; i++) {
    const size = Math.max(1, sizes[i % sizes.length] ?? 7);
    pieces.push(points.slice(at, at + size).join(""));
    at += size;
  }
  return pieces;
}
