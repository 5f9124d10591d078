import { describe, expect, it } from "vitest";
import { never } from "../../support/upstream/engine-calls.js";
import { answerBytes } from "../../support/upstream/raw-upstream.js";
import { load, start } from "../../support/upstream/test-upstream.js";

const json = (body: unknown) => answerBytes("200 OK", "application/json", JSON.stringify(body));
const request = { query: "a cat", documents: ["a dog", "a much longer text about cats", "a cat"] };

/** A reranking model of a server that gives this answer. */
async function ranking(answer: string) {
  const upstream = await start((socket) => void socket.end(answer));
  const capabilities = { operations: ["rerank"], abilities: [] } as const;
  return { upstream, model: await load(upstream, { kind: "vllm" }, {}, { capabilities, model: "ranker" }) };
}

describe("reranking by an upstream server", () => {
  it("puts the scores in the order of the documents (RANK-2)", async () => {
    const { upstream, model } = await ranking(
      json({
        results: [
          { index: 2, relevance_score: 0.9, document: { text: "a cat" } },
          { index: 0, relevance_score: -1.5 },
          { index: 1, relevance_score: 0.2 },
        ],
        usage: { total_tokens: 12 },
      }),
    );
    expect(await model.rerank(request, never)).toEqual({ scores: [-1.5, 0.2, 0.9], promptTokens: 12 });
    const sent = upstream.requests.find(({ method }) => method === "POST");
    expect(sent?.path).toBe("/v1/rerank");
    expect(JSON.parse(sent?.body ?? "")).toMatchObject({ model: "ranker", ...request });
  });

  it.each([
    ["a list with scores", [0, 1, 2].map((index) => ({ index, score: index }))],
    ["results below data", { data: [0, 1, 2].map((index) => ({ index, relevance_score: index })) }],
  ])("reads %s, and estimates the tokens where the server states none", async (_, body) => {
    const { model } = await ranking(json(body));
    const { scores, promptTokens } = await model.rerank(request, never);
    expect(scores).toEqual([0, 1, 2]);
    expect(promptTokens).toBeGreaterThan(3);
  });

  it.each([
    ["too few scores", { results: [{ index: 0, relevance_score: 1 }] }],
    ["an index of no document", { results: [0, 1, 7].map((index) => ({ index, relevance_score: 1 })) }],
    ["scores that are no numbers", { results: [0, 1, 2].map((index) => ({ index, relevance_score: "1" })) }],
    ["no results", { error: { message: "boom" } }],
  ])("an answer with %s is upstream_error", async (_, body) => {
    const { model } = await ranking(json(body));
    await expect(model.rerank(request, never)).rejects.toMatchObject({ code: "upstream_error" });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("names the longest document when the server rejects one as too long (RANK-7)", async () => {
    const message = "This model's maximum context length is 8 tokens. (parameter=input_tokens, value=9)";
    const { model } = await ranking(
      answerBytes("400 Bad Request", "application/json", JSON.stringify({ error: { message, param: "input_tokens" } })),
    );
    await expect(model.rerank(request, never)).rejects.toMatchObject({
      code: "context_overflow",
      param: "documents[1]",
    });
  });
});
