import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import type { RerankParamsSchema } from "../../../../gen/unified/inference/v1/rerank_pb.js";
import { EngineError } from "../../../../src/domain/engine/engine.js";
import { toRerankRequest } from "../../../../src/domain/inference/rerank.js";
import { caps } from "../../../support/capabilities.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { outcome, reranking } from "./params.js";

const ableCaps = { chat: false, completion: false, embeddings: false, rerank: true };

/** A core whose engine returns these scores. */
async function scoring(...scores: number[]) {
  const engine = new HandEngine(ableCaps);
  engine.rerank = async () => ({ scores, promptTokens: 7 });
  const harness = await createCoreHarness({ engines: [engine] });
  const rank = async (changes: MessageInitShape<typeof RerankParamsSchema>) =>
    harness.core.rerank(reranking(changes), (await harness.open("rerank")).ctx);
  return { ...harness, engine, rank };
}

describe("rerank", () => {
  it("sorts by score, best first, and leaves equal scores in the order of the request (RANK-2, RANK-3)", async () => {
    const { rank } = await scoring(-1, 0.5, 2, 0.5, -1);
    const { body } = await rank({ documents: ["a", "b", "c", "d", "e"] });
    expect(body.results.map(({ index, relevanceScore }) => [index, relevanceScore])).toEqual([
      [2, 2],
      [1, 0.5],
      [3, 0.5],
      [0, -1],
      [4, -1],
    ]);
    expect(body.id).toMatch(/^rerank-[\w-]{16,}$/);
    expect(body.model).toBe("m");
  });

  it("returns top_n results, at most one for each document (RANK-4)", async () => {
    const { rank } = await scoring(1, 3, 2);
    const indexes = async (topN?: number) => {
      const fields = { documents: ["a", "b", "c"], ...(topN === undefined ? {} : { topN }) };
      return (await rank(fields)).body.results.map(({ index }) => index);
    };
    expect(await indexes()).toEqual([1, 2, 0]);
    expect(await indexes(1)).toEqual([1]);
    expect(await indexes(9)).toEqual([1, 2, 0]);
  });

  it("returns the documents with the results unless the request sets return_documents to false (RANK-5)", async () => {
    const { rank } = await scoring(1, 2);
    const texts = async (fields: object) =>
      (await rank({ documents: ["a", "b"], ...fields })).body.results.map(({ document }) => document?.text);
    expect(await texts({})).toEqual(["b", "a"]);
    expect(await texts({ returnDocuments: true })).toEqual(["b", "a"]);
    expect(await texts({ returnDocuments: false })).toEqual([undefined, undefined]);
  });

  it("gives the engine all documents in one call, and settles the tokens that it counted (RANK-6)", async () => {
    const { engine, rank, settlements } = await scoring(1, 2);
    const documents = Array.from({ length: 1_000 }, (_, i) => `text ${i}`);
    const requests: object[] = [];
    engine.rerank = async (request) => {
      requests.push(request);
      return { scores: documents.map(() => 1), promptTokens: 2_500 };
    };
    const { body } = await rank({ query: "q", documents });
    expect(requests).toEqual([{ query: "q", documents, queueMs: 0 }]);
    expect(body.usage).toMatchObject({ promptTokens: 2_500, completionTokens: 0, totalTokens: 2_500 });
    expect(settlements).toMatchObject([{ why: "completed", promptTokens: 2_500, completionTokens: 0 }]);
  });

  it.each([
    ["a score that is not finite", [1, Number.NaN]],
    ["too few scores", [1]],
  ])("%s is an internal error (RANK-2)", async (_, scores) => {
    const { rank, settlements } = await scoring(...scores);
    await expect(rank({ documents: ["a", "b"] })).rejects.toMatchObject({ code: "internal_error" });
    // The engine has read the input, so its tokens are charged.
    expect(settlements).toMatchObject([{ why: "failed", promptTokens: 7 }]);
  });

  it("fails over to the next deployment, except for an invalid request", async () => {
    const broken = new HandEngine(ableCaps);
    const healthy = new HandEngine(ableCaps);
    broken.rerank = () => Promise.reject(new EngineError("upstream_error", "gone", { retryable: true }));
    healthy.rerank = async () => ({ scores: [1], promptTokens: 1 });
    const { core, open, settlements } = await createCoreHarness({ engines: [broken, healthy] });
    const { head } = await core.rerank(reranking(), (await open("rerank")).ctx);
    expect(head).toMatchObject({ deployment: "m/1", attempts: 2 });

    const usage = { promptTokens: 5, outTokens: 0, cachedTokens: 0 };
    broken.rerank = () =>
      Promise.reject(new EngineError("context_overflow", "too long", { param: "documents[0]", usage }));
    const wrong = core.rerank(reranking(), (await open("rerank")).ctx);
    await expect(wrong).rejects.toMatchObject({ code: "context_length_exceeded", param: "documents[0]" });
    expect(settlements).toMatchObject([
      { why: "completed", promptTokens: 1 },
      { why: "failed", promptTokens: 5 },
    ]);
  });

  it("runs on a deployment that can rerank, and is rejected if none can", async () => {
    const chatting = new HandEngine({ rerank: false });
    const ranking = new HandEngine(ableCaps);
    ranking.rerank = async () => ({ scores: [1], promptTokens: 1 });
    const { core, open } = await createCoreHarness({ engines: [chatting, ranking] });
    const { head } = await core.rerank(reranking(), (await open("rerank")).ctx);
    expect(head).toMatchObject({ deployment: "m/1", attempts: 1 });

    const build = () => toRerankRequest(reranking(), caps({ rerank: false }));
    expect(outcome(build)).toBe("model_not_supported model");
  });

  it("is rejected for a model without reranking (GEN-13)", async () => {
    const { core, open, settlements } = await createCoreHarness({ engines: [new HandEngine({ rerank: false })] });
    const asked = core.rerank(reranking(), (await open("rerank")).ctx);
    await expect(asked).rejects.toMatchObject({ code: "model_not_supported", param: "model" });
    expect(settlements).toEqual([]);
  });
});
