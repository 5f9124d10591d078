import { describe, expect, it } from "vitest";
import { toChoiceSampling } from "../../../../../src/engines/llama/child/generate.js";
import type { ChildGenerate } from "../../../../../src/engines/llama/protocol/protocol.js";

const request: ChildGenerate = {
  requestId: "req_1",
  input: { type: "text", text: "" },
  maxTokens: null,
  stop: [],
  temperature: 0.7,
  topP: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  cacheKey: "default",
  deltas: "each",
};

function sampling(changes: Partial<ChildGenerate>): ReturnType<typeof toChoiceSampling> {
  return toChoiceSampling(
    { ...request, ...changes },
    { vocabSize: 100, contextLength: 512 },
    { grammar: null, banned: null, produced: () => [] },
  );
}

describe("toChoiceSampling", () => {
  it("sets all parameters instead of using the binding's defaults", () => {
    const { native } = sampling({ minP: 0.1, topP: 0.5, topK: 7 });
    expect(native).toMatchObject({ temperature: 0.7, minP: 0.1, topP: 0.5, topK: 7, probabilities: false });
    expect(sampling({}).native).toMatchObject({ minP: 0, topP: 1, penalties: null });
  });

  it("considers 200 candidates unless top_k sets another number or top_p needs the whole vocabulary", () => {
    expect(sampling({}).native.topK).toBe(200);
    expect(sampling({ topK: 1000 }).native.topK).toBe(1000);
    expect(sampling({ topP: 0.9 }).native.topK).toBe(0);
    expect(sampling({ topP: 0.9, logprobs: 1 }).native.topK).toBe(200);
    expect(sampling({ topK: 1000, logprobs: 1 }).native.topK).toBe(200);
  });

  it("folds a 64-bit seed to 32 bits, keeps small seeds, and never gives the seed that means random (CHAT-9)", () => {
    const seed = (value: bigint): number => sampling({ seed: value }).native.seed;
    expect(seed(42n)).toBe(42);
    expect(seed(42n + 2n ** 32n)).not.toBe(42);
    for (const value of [0xffff_ffffn, -1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      expect(seed(value)).toBeGreaterThanOrEqual(0);
      expect(seed(value)).toBeLessThan(0xffff_ffff);
    }
  });

  it("draws a new seed for each answer without one", () => {
    expect(new Set(Array.from({ length: 20 }, () => sampling({}).native.seed)).size).toBeGreaterThan(15);
  });

  it("applies penalties to as many tokens as the context holds (CHAT-10)", () => {
    expect(sampling({ presencePenalty: -2 }).native.penalties).toMatchObject({
      repetition: 1,
      frequency: 0,
      presence: -2,
      tokensMax: 512,
    });
  });

  it("rejects a biased token outside of the vocabulary (CHAT-11)", () => {
    expect(sampling({ logitBias: new Map([[99, -100]]) }).native.logitBias.get(99)).toBe(-100);
    expect(() => sampling({ logitBias: new Map([[100, 1]]) })).toThrow("from 0 to 99, but one is 100");
  });
});
