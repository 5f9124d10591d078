import { describe, expect, it } from "vitest";
import { load, neverAborted } from "./run-model.js";

describe("scripted model: embeddings", () => {
  it("a model with `dimensions` only supports embeddings", async () => {
    const { caps } = await load({ dimensions: 8 });
    expect(caps).toMatchObject({ chat: false, completion: false, embeddings: true, embeddingDims: 8 });
    expect((await load({})).caps).toMatchObject({ chat: true, completion: true, embeddings: false });
  });

  it("a shortened vector is the start of the long one, normalized again (EMB-8)", async () => {
    const model = await load({ dimensions: 8 });
    const long = (await model.embed({ inputs: ["x"] }, neverAborted)).vectors[0] ?? new Float32Array();
    const short = (await model.embed({ inputs: ["x"], dimensions: 3 }, neverAborted)).vectors[0] ?? new Float32Array();
    const length = Math.hypot(...long.slice(0, 3));
    expect([...short]).toEqual([...long.slice(0, 3)].map((number) => expect.closeTo(number / length, 5)));
  });

  it("the tokens of all inputs are counted, and each input is limited separately", async () => {
    const model = await load({ dimensions: 2, context_length: 3 });
    const { promptTokens } = await model.embed({ inputs: ["a b", "a b c"] }, neverAborted);
    expect(promptTokens).toBe(5);
    await expect(model.embed({ inputs: ["a", "a b c d"] }, neverAborted)).rejects.toMatchObject({
      code: "context_overflow",
      param: "input[1]",
    });
  });

  it("the model waits, fails and hangs as configured", async () => {
    const failing = await load({ dimensions: 2, fail: { code: "upstream_error", times: 1 } });
    await expect(failing.embed({ inputs: ["a"] }, neverAborted)).rejects.toMatchObject({ code: "upstream_error" });
    expect((await failing.embed({ inputs: ["a"] }, neverAborted)).vectors).toHaveLength(1);
    const hanging = await load({ dimensions: 2, hang_after_tokens: 0 });
    const abort = new AbortController();
    const embedding = hanging.embed({ inputs: ["a"] }, abort.signal);
    await expect.poll(() => hanging.stats().slotsBusy).toBe(1);
    abort.abort();
    await expect(embedding).rejects.toMatchObject({ code: "aborted", usage: { promptTokens: 1 } });
  });

  it("a chat model rejects requests for embeddings", async () => {
    await expect((await load({})).embed({ inputs: ["a"] }, neverAborted)).rejects.toMatchObject({
      code: "unsupported",
    });
  });
});
