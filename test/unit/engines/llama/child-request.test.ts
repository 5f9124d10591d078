import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { toChildGenerate, toChildInput } from "../../../../src/engines/llama/llama-model.js";
import { tell } from "../../../support/llama/fake-llama.js";

describe("toChildGenerate", () => {
  it("keeps the fields that the child reads and drops those that only the server reads", () => {
    const { n, queueMs, ...kept } = tell("Hello");
    const request = {
      ...kept,
      n,
      queueMs: queueMs + 5,
      reasoningEffort: "high",
      chatTemplateKwargsJson: "{}",
      seed: 7n,
    };
    expect(toChildGenerate(request)).toEqual({ ...kept, seed: 7n, input: { type: "text", text: "Hello" } });
  });

  it("consists of plain values, which can be cloned", () => {
    const message = create(MessageSchema, { role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] });
    const input = { messages: [message], tools: [], toolChoice: { mode: "none" }, parallelToolCalls: true } as const;
    const request = toChildGenerate({ ...tell(""), input, reasoningEffort: "high", logitBias: new Map([[1, -100]]) });
    expect(structuredClone(request)).toEqual(request);
    expect(request.input).toMatchObject({
      type: "chat",
      messages: [{ role: "user", content: "Hi" }],
      templateVariables: { enable_thinking: true },
    });
  });

  it("passes token ids on unchanged", () => {
    expect(toChildInput({ prompt: [1, 2] }, {})).toEqual({ type: "tokens", tokens: [1, 2] });
  });
});
