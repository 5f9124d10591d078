import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeRandomBertGguf } from "../../../../support/gguf/random-gguf.js";
import { EngineChild, modelPath, startMs } from "./engine-child.js";

const path = modelPath("bert");
const dims = 64;
let child: EngineChild;

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeRandomBertGguf(path);
  child = await EngineChild.load({ path, kind: "embedding", contextLength: 4096, slots: 2 });
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

async function embed(inputs: readonly (string | readonly number[])[]): Promise<{
  readonly vectors: readonly Float32Array[];
  readonly promptTokens: number;
}> {
  const end = await child.embed(inputs).end;
  if (end.type !== "embedded") throw new Error(`not embedded: ${JSON.stringify(end)}`);
  const vectors = inputs.map((_, i) => end.vectors.subarray(i * dims, (i + 1) * dims));
  return { vectors, promptTokens: end.promptTokens };
}

describe("embeddings", () => {
  it("have the model's vector length, and a context limited to the trained one", () => {
    expect(child.facts).toMatchObject({ embeddingDims: dims, contextLength: 512, tools: "none" });
  });

  it("have length one, are in input order, and are repeatable (EMB-9)", async () => {
    const { vectors, promptTokens } = await embed(["the cat", "a dog", "the cat"]);
    for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    expect(vectors[2]).toEqual(vectors[0]);
    expect(vectors[1]).not.toEqual(vectors[0]);
    expect(promptTokens).toBeGreaterThan(3 * 2);
  });

  it("count the tokens that the model adds around an input", async () => {
    const one = await embed(["the of"]);
    expect(one.promptTokens).toBe(2 + 2);
    expect((await embed([[5, 6, 7]])).promptTokens).toBe(3 + 2);
  });

  it("accept an input that fills the context, and report the index of a longer one", async () => {
    expect((await embed(["the ".repeat(510)])).promptTokens).toBe(512);
    const error = await child.embed(["the", "the ".repeat(511)]).error();
    expect(error).toMatchObject({ code: "context_overflow", param: "input[1]" });
    expect(error.message).toContain("maximum context length is 512 tokens");
  });

  it("report the index of an input without text or with tokens of another model", async () => {
    for (const empty of ["", "  ", []]) {
      expect(await child.embed(["the", empty]).error()).toMatchObject({ code: "bad_input", param: "input[1]" });
    }
    expect(await child.embed([[child.facts.vocabSize]]).error()).toMatchObject({
      code: "bad_input",
      param: "input[0]",
    });
  });

  it("stop between two inputs when they are aborted, and continue with the next call", async () => {
    const run = child.embed(Array.from({ length: 2000 }, () => "the of and to a in is it"));
    run.abort();
    expect(await run.error()).toMatchObject({ code: "aborted" });
    expect(await child.slotsBusy()).toBe(0);
    expect((await embed(["the"])).vectors).toHaveLength(1);
  });

  it("of a short call do not wait until all inputs of a long call are computed", async () => {
    const long = child.embed(Array.from({ length: 2000 }, () => "the of and to a in is it"));
    await embed(["the"]);
    long.abort();
    expect(await long.error()).toMatchObject({ code: "aborted" });
  });

  it("are rejected if all slots are busy", async () => {
    const inputs = Array.from({ length: 400 }, () => "the of and to a in is it");
    const runs = [child.embed(inputs), child.embed(inputs), child.embed(inputs)];
    const ends = await Promise.all(runs.map(({ end }) => end));
    expect(ends.map(({ type }) => type)).toEqual(["embedded", "embedded", "failed"]);
    expect(await runs[2]?.error()).toMatchObject({ code: "overloaded", retryable: true });
  });

  it("are the only requests that an embedding model accepts", async () => {
    expect(await child.generate().error()).toMatchObject({ code: "unsupported" });
  });
});
