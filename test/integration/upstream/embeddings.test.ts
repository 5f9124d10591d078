import { describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { never } from "../../support/upstream/engine-calls.js";
import { answerBytes } from "../../support/upstream/raw-upstream.js";
import { recordedBytes } from "../../support/upstream/recorded-answers.js";
import { load, start } from "../../support/upstream/test-upstream.js";

describe("embeddings of an upstream server", () => {
  const json = (body: unknown) => answerBytes("200 OK", "application/json", JSON.stringify(body));

  it.each(["llama-server/emb-base64", "llama-server/emb-batch", "llama-server/emb-batch-base64"])(
    "are decoded from the recorded answer %s",
    async (name) => {
      const upstream = await start((socket) => void socket.end(recordedBytes(name)));
      const model = await load(upstream);
      const inputs = name.includes("batch") ? ["a", "b"] : ["hello world"];
      const { vectors, promptTokens } = await model.embed({ inputs }, never);
      expect(vectors).toHaveLength(inputs.length);
      for (const vector of vectors) {
        expect(vector).toHaveLength(384);
        expect(Math.hypot(...vector)).toBeCloseTo(1, 3);
      }
      expect(promptTokens).toBeGreaterThan(0);
      expect(JSON.parse(upstream.requests[0]?.body ?? "")).toEqual({
        model: "smollm2",
        input: inputs,
        encoding_format: "base64",
      });
    },
  );

  it("are put in the order of their index, also if they are lists of numbers", async () => {
    const upstream = await start(
      (socket) =>
        void socket.end(
          json({
            data: [
              { index: 1, embedding: [3, 4] },
              { index: 0, embedding: [1, 2] },
            ],
            usage: { prompt_tokens: 9 },
          }),
        ),
    );
    const model = await load(upstream);
    expect(await model.embed({ inputs: ["a", "b"] }, never)).toEqual({
      vectors: [Float32Array.of(1, 2), Float32Array.of(3, 4)],
      promptTokens: 9,
    });
  });

  it.each([
    ["too few vectors", { data: [{ index: 0, embedding: [1] }] }],
    [
      "another index",
      {
        data: [
          { index: 0, embedding: [1] },
          { index: 5, embedding: [1] },
        ],
      },
    ],
    ["vectors of different lengths", { data: [{ embedding: [1] }, { embedding: [1, 2] }] }],
    ["numbers that are not finite", { data: [{ embedding: "AADAfw==" }, { embedding: "AADAfw==" }] }],
    ["texts", { data: [{ embedding: ["x"] }, { embedding: [null] }] }],
    ["half a number", { data: [{ embedding: "AAA=" }, { embedding: "AAA=" }] }],
    ["an error with 200", { error: { message: "boom" } }],
    ["no JSON", "<html>"],
  ])("an answer with %s is upstream_error", async (_, body) => {
    const upstream = await start((socket) => void socket.end(json(body)));
    const model = await load(upstream);
    await expect(model.embed({ inputs: ["a", "b"] }, never)).rejects.toMatchObject({ code: "upstream_error" });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("fail with the name of the longest input when the server rejects one as too long", async () => {
    const upstream = await start((socket) => void socket.end(recordedBytes("llama-server/emb-too-long")));
    const model = await load(upstream);
    const inputs = ["short", "much longer than the others", "mid size"];
    await expect(model.embed({ inputs }, never)).rejects.toMatchObject({ code: "context_overflow", param: "input[1]" });
  });

  it("vectors that the server did not shorten are an error about 'dimensions'", async () => {
    const upstream = await start((socket) => void socket.end(json({ data: [{ embedding: [1, 2, 3] }] })));
    const model = await load(upstream);
    await expect(model.embed({ inputs: ["a"], dimensions: 2 }, never)).rejects.toMatchObject({
      code: "unsupported",
      param: "dimensions",
    });
  });

  it("an abort closes the connection (REL-2)", async () => {
    const upstream = await start(() => {});
    const model = await load(upstream);
    const abort = new AbortController();
    const running = model.embed({ inputs: ["a"] }, abort.signal);
    await eventually(() => upstream.requests.length === 1, "the request");
    abort.abort();
    await expect(running).rejects.toMatchObject({ code: "aborted" });
    await eventually(() => upstream.isIdle, "the closed connection");
  });
});
