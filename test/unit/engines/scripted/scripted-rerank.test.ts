import { describe, expect, it } from "vitest";
import type { ScriptedOptions } from "../../../../src/engines/scripted/scripted-options.js";
import { load, neverAborted } from "./run-model.js";

async function rank(query: string, documents: readonly string[], options: ScriptedOptions = {}) {
  const model = await load({ rerank: true, ...options });
  return await model.rerank({ query, documents }, neverAborted);
}

describe("scripted model: rerank", () => {
  it("a model with `rerank` supports reranking and, with `dimensions`, also embeddings", async () => {
    const text = { chat: false, completion: false };
    expect((await load({ rerank: true })).caps).toMatchObject({ ...text, embeddings: false, rerank: true });
    expect((await load({ rerank: true, dimensions: 2 })).caps).toMatchObject({
      ...text,
      embeddings: true,
      rerank: true,
    });
    expect((await load({})).caps).toMatchObject({ chat: true, completion: true, rerank: false });
  });

  it("the score is the share of the query's words that the document contains", async () => {
    const documents = ["Paris is the capital of France.", "the FRANCE, of: Paris", "Berlin", "of of of of"];
    expect((await rank("capital of France", documents)).scores).toEqual([1, 2 / 3, 0, 1 / 3]);
  });

  it("whole words of any script are compared, ignoring case and punctuation", async () => {
    expect((await rank("ÉTÉ", ["c'est l'été !", "été-là", "étés"])).scores).toEqual([1, 1, 0]);
    expect((await rank("猫 狗", ["狗", "鸟"])).scores).toEqual([0.5, 0]);
    expect((await rank("?!", ["?!"])).scores).toEqual([0]);
  });

  it("the query is counted once, and all documents are counted (RANK-6)", async () => {
    expect((await rank("a b", ["a", "b c d"])).promptTokens).toBe(2 + 1 + 3);
  });

  it("an error names a document that exceeds the context together with the query (RANK-7)", async () => {
    const tooLong = rank("a b", ["c", "c d"], { context_length: 3 });
    await expect(tooLong).rejects.toMatchObject({
      code: "context_overflow",
      param: "documents[1]",
      message: expect.stringContaining("is 3 tokens, but documents[1] together with 'query' has 4 tokens"),
    });
  });

  it("the model waits, fails and hangs as configured", async () => {
    const failing = await load({ rerank: true, fail: { code: "upstream_error", times: 1 } });
    const request = { query: "a", documents: ["a"] };
    await expect(failing.rerank(request, neverAborted)).rejects.toMatchObject({ code: "upstream_error" });
    expect((await failing.rerank(request, neverAborted)).scores).toEqual([1]);
    const hanging = await load({ rerank: true, hang_after_tokens: 0 });
    const abort = new AbortController();
    const ranking = hanging.rerank(request, abort.signal);
    await expect.poll(() => hanging.stats().slotsBusy).toBe(1);
    abort.abort();
    await expect(ranking).rejects.toMatchObject({ code: "aborted", usage: { promptTokens: 2 } });
  });
});
