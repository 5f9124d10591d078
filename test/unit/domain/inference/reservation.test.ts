import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { EngineError, type GenerateInput, type GenerateRequest } from "../../../../src/domain/engine/engine.js";
import { RunPlan } from "../../../../src/domain/inference/chat-request.js";
import {
  type CountingModel,
  reserveForInputs,
  reserveForPrompts,
  reserveForRanking,
} from "../../../../src/domain/inference/reservation.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { caps } from "../../../support/capabilities.js";

const never = new AbortSource();

/** A model that counts ten tokens for every prompt, and the number of counts. */
function model(count: (input: GenerateInput) => number | null = () => 10, contextLength = 4_096) {
  const asked: GenerateInput[] = [];
  const counting: CountingModel = {
    caps: caps({ contextLength, maxOutput: contextLength }),
    async countTokens(input) {
      asked.push(input);
      return count(input);
    },
  };
  return { counting, asked };
}

const base = (fields: Partial<GenerateRequest> = {}): GenerateRequest => ({
  input: { prompt: "a b" },
  n: 1,
  maxTokens: 50,
  stop: [],
  temperature: 1,
  topP: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  requestId: "",
  queueMs: 0,
  cacheKey: "",
  deltas: "joined",
  ...fields,
});
const plan = (requests: readonly GenerateRequest[], nativeN = true) =>
  new RunPlan(() => requests, [caps({ nativeN })]).prompts;

describe("the reservation for generated text", () => {
  it.each([true, false])(
    "counts the prompt once and max_tokens for each choice (one engine run: %s) (state RL-5)",
    async (nativeN) => {
      const { counting, asked } = model();
      const reserved = await reserveForPrompts(counting, plan([base({ n: 3 })], nativeN), never);
      expect(reserved).toEqual({ promptTokens: 10, outputTokens: 150, isCounted: true });
      expect(asked).toHaveLength(1);
    },
  );

  it("counts 1,024 tokens for each choice without max_tokens, at most the rest of the context (state RL-5)", async () => {
    const prompts = plan([base({ maxTokens: null, n: 2 })]);
    expect((await reserveForPrompts(model().counting, prompts, never)).outputTokens).toBe(2_048);
    expect((await reserveForPrompts(model(() => 10, 100).counting, prompts, never)).outputTokens).toBe(180);
    expect((await reserveForPrompts(model(() => 200, 100).counting, prompts, never)).outputTokens).toBe(0);
  });

  it("adds up all prompts of a batch (state RL-5)", async () => {
    const { counting } = model((input) => ("prompt" in input ? input.prompt.length : 0));
    const prompts = plan([base({ input: { prompt: "abc" } }), base({ input: { prompt: [1, 2] }, n: 2 })]);
    expect(await reserveForPrompts(counting, prompts, never)).toEqual({
      promptTokens: 5,
      outputTokens: 150,
      isCounted: true,
    });
  });

  it("estimates a third of the bytes, rounded up, when the engine cannot count", async () => {
    const { counting } = model(() => null);
    const text = plan([base({ input: { prompt: "äbcd" } })]);
    expect(await reserveForPrompts(counting, text, never)).toMatchObject({ promptTokens: 2, isCounted: false });
    const message = create(MessageSchema, {
      role: Role.USER,
      content: [{ part: { case: "text", value: "x".repeat(300) } }],
    });
    const chat = { messages: [message], tools: [], toolChoice: { mode: "none" }, parallelToolCalls: false } as const;
    const { promptTokens } = await reserveForPrompts(null, plan([base({ input: chat })]), never);
    expect(promptTokens).toBeGreaterThanOrEqual(100);
    expect(promptTokens).toBeLessThan(110);
  });

  it("is an estimate when counting fails in the engine, but other errors are thrown", async () => {
    const failing = model(() => {
      throw new EngineError("model_not_loaded", "gone");
    });
    expect((await reserveForPrompts(failing.counting, plan([base()]), never)).isCounted).toBe(false);
    const broken = model(() => {
      throw new Error("a fault of ours");
    });
    await expect(reserveForPrompts(broken.counting, plan([base()]), never)).rejects.toThrow("a fault of ours");
  });
});

describe("the reservation for embeddings", () => {
  it("adds up all inputs and no answer (state RL-5)", async () => {
    const { counting } = model(() => 4);
    expect(await reserveForInputs(counting, { inputs: ["a", "b", [1, 2, 3]] }, never)).toEqual({
      promptTokens: 12,
      outputTokens: 0,
      isCounted: true,
    });
    expect(await reserveForInputs(null, { inputs: ["abcd", [1, 2, 3]] }, never)).toEqual({
      promptTokens: 5,
      outputTokens: 0,
      isCounted: false,
    });
  });
});

describe("the reservation for a ranking", () => {
  it("adds up all documents, each with the query, as an estimate: engines differ in how they count the query (state RL-5)", async () => {
    const counted = model((input) => ("prompt" in input ? input.prompt.length : 0)).counting;
    const request = { query: "abc", documents: ["d", "ef"] };
    const reserved = { promptTokens: 3 * 2 + 1 + 2, outputTokens: 0, isCounted: false };
    expect(await reserveForRanking(counted, request, never)).toEqual(reserved);
    expect(await reserveForRanking(null, request, never)).toEqual({ ...reserved, promptTokens: 2 + 2 });
  });
});
