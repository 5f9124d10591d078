import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeScriptedGguf } from "../../../../support/gguf/scripted-gguf.js";
import { hermesTemplate } from "../text/templates.js";
import { chat, EngineChild, modelPath, startMs } from "./engine-child.js";

const controls = ["<think>", "</think>", "<tool_call>", "</tool_call>"];
const args = '{"city": "Oslo"}';
const said = `<think>\nThey ask.</think>Well. <tool_call>{"name": "get_weather", "arguments": ${args}}</tool_call>`;
const parameters = {
  type: "object",
  properties: { city: { enum: ["Oslo"] } },
  required: ["city"],
  additionalProperties: false,
};
const weatherTool = { type: "function", function: { name: "get_weather", parameters, strict: true } } as const;
const path = modelPath("markers");
let child: EngineChild;

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeScriptedGguf(path, { text: said, controls, chatTemplate: hermesTemplate });
  child = await EngineChild.load({ path, kind: "chat" });
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

describe("a model that writes its markers as control tokens", () => {
  it("has its thoughts and calls parsed (RESP-12)", async () => {
    const input = { ...chat("Weather?"), tools: [weatherTool], toolChoice: { mode: "auto" } } as const;
    const { text, reason, events } = await child.generate({ input }).answer();
    const thoughts = events.flatMap((event) => (event.type === "reasoning" ? [event.text] : []));
    const calls = events.flatMap((event) => (event.type === "tool" ? [event] : []));
    expect({ text, reason, thoughts: thoughts.join("") }).toEqual({
      text: "Well.",
      reason: "tool_calls",
      thoughts: "They ask.",
    });
    expect(calls[0]).toMatchObject({ name: "get_weather" });
    expect(calls.map(({ argsDelta }) => argsDelta ?? "").join("")).toBe(args);
  });

  it("produces a required tool call (TOOL-5)", async () => {
    const input = { ...chat("Weather?"), tools: [weatherTool], toolChoice: { mode: "required" } } as const;
    const { vocabSize } = child.facts;
    const likely = new Map([vocabSize - 2, vocabSize - 1].map((token) => [token, 100]));
    const whole = { input: { ...input, parallelToolCalls: false }, maxTokens: 400 };
    const { events, reason, outTokens } = await child.generate({ ...whole, logitBias: likely }).answer();
    const calls = events.flatMap((event) => (event.type === "tool" ? [event] : []));
    expect({ reason, name: calls[0]?.name }).toEqual({ reason: "tool_calls", name: "get_weather" });
    expect(calls.map(({ argsDelta }) => argsDelta ?? "").join("")).toBe(args);
    const never = new Map([vocabSize - 2, vocabSize - 1].map((token) => [token, -100]));
    const spelled = await child.generate({ ...whole, logitBias: never }).answer();
    expect(spelled.reason).toBe("tool_calls");
    expect(spelled.outTokens).toBeGreaterThan(outTokens);
  });

  it("keeps the markers in the text of a plain prompt", async () => {
    const { text } = await child.generate({ input: { type: "text", text: "Say" } }).answer();
    expect(text).toBe(said);
  });
});
