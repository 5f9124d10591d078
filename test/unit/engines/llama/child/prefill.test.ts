import { describe, expect, it, vi } from "vitest";
import type { NativeSequence } from "../../../../../src/engines/llama/child/native-model.js";
import { findPace, PrefillPace, prefill, StepBatcher } from "../../../../../src/engines/llama/child/steps.js";

/** Evaluates the given number of tokens per millisecond, on a clock that only `evaluate` advances. */
function paced(tokensPerMs: number): { readonly evaluate: (tokens: number) => Promise<void>; end(): void } {
  let nowMs = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  return {
    evaluate: async (tokens) => {
      nowMs += tokens / tokensPerMs;
    },
    end: () => clock.mockRestore(),
  };
}

async function rest(tokensPerMs: number, from = new PrefillPace(512)): Promise<PrefillPace> {
  const { evaluate, end } = paced(tokensPerMs);
  for (let i = 0; i < 20; i++) {
    const { pieceTokens } = from;
    await from.measure(pieceTokens, () => evaluate(pieceTokens));
  }
  end();
  return from;
}

describe("PrefillPace", () => {
  it("sets the piece size to the largest power of two that takes at most 50 ms", async () => {
    expect((await rest(1)).pieceTokens).toBe(32);
    expect((await rest(2.6)).pieceTokens).toBe(128);
  });

  it("allows pieces four times as large while no other call runs, at most a whole batch", async () => {
    expect((await rest(1)).alonePieceTokens).toBe(128);
    expect((await rest(2.6)).alonePieceTokens).toBe(512);
    expect((await rest(1000)).alonePieceTokens).toBe(512);
    expect(new PrefillPace(512).alonePieceTokens).toBe(8);
  });

  it("keeps the piece size between 8 tokens and half a batch", async () => {
    expect((await rest(0.01)).pieceTokens).toBe(8);
    expect((await rest(1000)).pieceTokens).toBe(256);
  });

  it("can start with pieces of one token for slow evaluations", async () => {
    expect((await rest(0.01, new PrefillPace(32, 1))).pieceTokens).toBe(1);
    expect((await rest(0.1, new PrefillPace(32, 1))).pieceTokens).toBe(4);
    expect((await rest(1000, new PrefillPace(32, 1))).pieceTokens).toBe(16);
  });

  it("adapts to a machine that becomes slower", async () => {
    const pace = await rest(10);
    expect((await rest(0.5, pace)).pieceTokens).toBe(16);
  });
});

/** A sequence that records the evaluated pieces. */
function sequence(evaluated: number[][], evaluate: (tokens: number) => Promise<void> = async () => {}): NativeSequence {
  const tokens: number[] = [];
  return {
    tokens,
    keepsPrefixes: true,
    cutTo: async (kept) => {
      tokens.length = kept;
    },
    evaluate: async (piece) => {
      evaluated.push([...piece]);
      tokens.push(...piece);
      await evaluate(piece.length);
    },
    decode: () => {
      throw new Error("not in these tests");
    },
    score: () => {
      throw new Error("not in these tests");
    },
  };
}

describe("findPace", () => {
  it.each([
    { tokensPerMs: 2.6, contextLength: 2048, sizes: [8, 16, 32, 64, 128] },
    { tokensPerMs: 0.01, contextLength: 2048, sizes: [8] },
    { tokensPerMs: 1000, contextLength: 64, sizes: [8, 16, 32] },
  ])("doubles the pieces while they are fast enough and fit into the context: $sizes", async (on) => {
    const { evaluate, end } = paced(on.tokensPerMs);
    const evaluated: number[][] = [];
    const empty = sequence(evaluated, evaluate);
    await findPace(new PrefillPace(512), empty, on.contextLength);
    end();
    expect(evaluated.map(({ length }) => length)).toEqual(on.sizes);
    expect(empty.tokens).toEqual([]);
  });
});

describe("prefill", () => {
  it("evaluates all but the last piece, which has at least one token", async () => {
    const prompt = Array.from({ length: 40 }, (_, i) => i);
    for (const length of [1, 8, 9, 16, 17, 33, 40]) {
      const evaluated: number[][] = [];
      const deps = { batcher: new StepBatcher(), pace: new PrefillPace(16) };
      const last = await prefill(sequence(evaluated), prompt.slice(0, length), deps, () => {});
      expect([...evaluated.flat(), ...last]).toEqual(prompt.slice(0, length));
      expect(last.length).toBeGreaterThanOrEqual(1);
      expect(Math.max(last.length, ...evaluated.map((piece) => piece.length))).toBeLessThanOrEqual(16);
    }
  });

  it("evaluates large pieces while no other call runs, and small ones while a call decodes", async () => {
    const pace = await rest(1);
    const batcher = new StepBatcher();
    const prompt = Array.from({ length: 600 }, (_, i) => i);
    const sizesOf = async (): Promise<readonly number[]> => {
      const evaluated: number[][] = [];
      // The clock does not advance, so that the size does not adapt.
      const { end } = paced(1);
      pace.measure = async (_, run) => run();
      await prefill(sequence(evaluated), prompt, { batcher, pace }, () => {});
      end();
      return evaluated.map(({ length }) => length);
    };
    expect(await sizesOf()).toEqual([128, 128, 128, 128]);
    let isDecoding = true;
    const decode = async (): Promise<void> => {
      while (isDecoding) await batcher.step(async () => {});
    };
    const decoding = decode();
    const beside = await sizesOf();
    isDecoding = false;
    await decoding;
    expect(new Set(beside)).toEqual(new Set([32]));
  });

  it("calls its check before each piece", async () => {
    const evaluated: number[][] = [];
    const deps = { batcher: new StepBatcher(), pace: new PrefillPace(16) };
    const check = (): void => {
      if (evaluated.length === 2) throw new Error("enough");
    };
    const prompt = Array.from({ length: 100 }, (_, i) => i);
    await expect(prefill(sequence(evaluated), prompt, deps, check)).rejects.toThrow("enough");
    expect(evaluated).toHaveLength(2);
  });
});
