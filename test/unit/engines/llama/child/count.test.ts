import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { ChildInput } from "../../../../../src/engines/llama/protocol/protocol.js";
import { writeScriptedGguf } from "../../../../support/gguf/scripted-gguf.js";
import { hermesTemplate, weatherTool } from "../text/templates.js";
import { chat, EngineChild, modelPath, startMs } from "./engine-child.js";

const path = modelPath("count");
let child: EngineChild;

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeScriptedGguf(path, { text: "Yes.", chatTemplate: hermesTemplate });
  child = await EngineChild.load({ path, kind: "chat" });
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

const thinking: ChildInput = { ...chat("Hm?"), templateVariables: { enable_thinking: true } };

it.each<[string, ChildInput]>([
  ["a text", { type: "text", text: "Once upon a time" }],
  ["a conversation", chat("One", "Two", "Three")],
  ["a conversation with thoughts", thinking],
  ["tools", { ...thinking, tools: [weatherTool], toolChoice: { mode: "auto" } }],
  ["a forced tool", { ...thinking, tools: [weatherTool], toolChoice: { mode: "required" } }],
])("counts the tokens of %s exactly, with and without a format", async (_, input) => {
  for (const format of [undefined, { type: "json_object" }] as const) {
    const asked = format === undefined ? { input } : { input, format };
    const { promptTokens } = await child.generate({ ...asked, maxTokens: 1 }).answer();
    expect(await child.count(input, format)).toBe(promptTokens);
  }
});

it("the count includes the tokens that a format adds for a model with reasoning", async () => {
  expect(await child.count(thinking, { type: "json_object" })).toBeGreaterThan(await child.count(thinking));
});
