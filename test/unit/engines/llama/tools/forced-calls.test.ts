import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../../src/domain/engine/engine.js";
import type { ChildInput } from "../../../../../src/engines/llama/protocol/protocol.js";
import { writeRandomGguf } from "../../../../support/gguf/random-gguf.js";
import { rounds } from "../../../../support/tier.js";
import { chat, EngineChild, modelPath, startMs } from "../child/engine-child.js";
import { hermesTemplate } from "../text/templates.js";

type ChatInput = Extract<ChildInput, { type: "chat" }>;

const path = modelPath("forced-calls");
let child: EngineChild;

beforeAll(async () => {
  await writeRandomGguf(path, { chatTemplate: hermesTemplate });
  child = await EngineChild.load({ path, kind: "chat", contextLength: 4096 });
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

const city = { enum: ["Oslo", "Rome <|im_end|>", '"é\\'] };
const tools = [
  {
    type: "function",
    function: {
      name: "look",
      parameters: { type: "object", properties: { city }, required: ["city"], additionalProperties: false },
      strict: true,
    },
  },
  {
    type: "function",
    function: {
      name: "stay",
      parameters: { type: "object", properties: {}, additionalProperties: false },
      strict: true,
    },
  },
] as const;
const schemaJson =
  '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}';
const format = { type: "json_schema", name: "answer", schemaJson, strict: true } as const;

function asked(toolChoice: ChatInput["toolChoice"], parallelToolCalls = true): ChatInput {
  return { ...chat("Hi"), tools, toolChoice, parallelToolCalls };
}

function callsOf(events: readonly GenEvent[]): readonly { name: string; args: unknown }[] {
  const calls: { name: string; args: string }[] = [];
  for (const event of events) {
    if (event.type !== "tool") continue;
    if (event.id !== undefined) calls.push({ name: event.name ?? "", args: "" });
    const call = calls.at(-1);
    if (call !== undefined) call.args += event.argsDelta ?? "";
  }
  return calls.map(({ name, args }) => ({ name, args: JSON.parse(args) as unknown }));
}

describe("calls that a grammar enforces", () => {
  const seeds = Array.from({ length: rounds(60) }, (_, seed) => ({ temperature: 1.5, seed: BigInt(seed) }));

  it("are produced and valid if required, although the model prefers other text (TOOL-5, TOOL-9)", async () => {
    for (const parallel of [true, false]) {
      for (const seed of seeds) {
        const { events, reason, text } = await child
          .generate({ ...seed, input: asked({ mode: "required" }, parallel) })
          .answer();
        const calls = callsOf(events);
        expect([reason, text]).toEqual(["tool_calls", ""]);
        expect(calls.length).toBeGreaterThanOrEqual(1);
        expect(calls.length).toBeLessThanOrEqual(parallel ? 16 : 1);
        for (const { name, args } of calls) {
          expect(args).toEqual(name === "look" ? { city: expect.toBeOneOf(city.enum) } : {});
        }
      }
    }
  });

  it("are exactly one call of the function if one is named (TOOL-5)", async () => {
    for (const seed of seeds) {
      const { events, reason } = await child
        .generate({ ...seed, input: asked({ mode: "named", name: "stay" }) })
        .answer();
      expect([reason, callsOf(events)]).toEqual(["tool_calls", [{ name: "stay", args: {} }]]);
    }
  });

  it("are partial if the token limit cuts them, and the answer finishes with length (TOOL-15)", async () => {
    const input = asked({ mode: "named", name: "look" });
    const whole = await child.generate({ input }).answer();
    const { events, reason } = await child.generate({ input, maxTokens: whole.outTokens - 1 }).answer();
    expect(reason).toBe("length");
    expect(events).toContainEqual(expect.objectContaining({ type: "tool", name: "look", index: 0 }));
  });

  it("can be an alternative to text that follows a schema (RF-6)", async () => {
    for (const seed of seeds) {
      const { events, reason, text } = await child
        .generate({ ...seed, input: asked({ mode: "auto" }), format })
        .answer();
      const calls = callsOf(events);
      expect(reason).toBe(calls.length > 0 ? "tool_calls" : "stop");
      expect(calls.length > 0 ? text : JSON.parse(text)).toEqual(calls.length > 0 ? "" : { ok: expect.any(Boolean) });
    }
  });
});
