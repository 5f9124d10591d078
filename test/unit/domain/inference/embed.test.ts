import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { EmbeddingParamsSchema } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import { type EmbedResult, EngineError } from "../../../../src/domain/engine/engine.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";

const caps = { chat: false, completion: false, embeddings: true, embeddingDims: 2 };
const params = (inputs: number) =>
  create(EmbeddingParamsSchema, { model: "m", input: Array.from({ length: inputs }, (_, i) => `text ${i}`) });

describe("embed", () => {
  it("a vector with a number that is not finite is an internal error (EMB-5)", async () => {
    const engine = new HandEngine(caps);
    engine.embed = async () => ({ vectors: [new Float32Array([1, Number.NaN])], promptTokens: 2 });
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const { ctx } = await open("create_embeddings");
    await expect(core.createEmbeddings(params(1), ctx)).rejects.toMatchObject({ code: "internal_error" });
    expect(settlements).toMatchObject([{ why: "failed", promptTokens: 2 }]);
  });

  it("a large batch runs in slices, in order, and is one request (EMB-11)", async () => {
    const engine = new HandEngine(caps);
    const slices: number[] = [];
    engine.embed = async (inputs) => {
      const first = slices.reduce((sum, count) => sum + count, 0);
      slices.push(inputs);
      const vectors = Array.from({ length: inputs }, (_, i) => new Float32Array([first + i, 0]));
      return { vectors, promptTokens: inputs * 2 };
    };
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const { body } = await core.createEmbeddings(params(300), (await open("create_embeddings")).ctx);
    expect(slices).toEqual([128, 128, 44]);
    const list = "data" in body ? body : null;
    expect(list?.data.map(({ vector }) => new Float32Array(vector.buffer, vector.byteOffset, 2)[0])).toEqual(
      Array.from({ length: 300 }, (_, i) => i),
    );
    expect(list?.usage).toMatchObject({ promptTokens: 600, totalTokens: 600 });
    expect(settlements).toMatchObject([{ why: "completed", promptTokens: 600 }]);
  });

  it("an error names an input by its index in the whole request, not in its slice (EMB-1)", async () => {
    const engine = new HandEngine(caps);
    let calls = 0;
    engine.embed = async (inputs) => {
      calls += 1;
      if (calls === 2) throw new EngineError("context_overflow", "input[3] is too long", { param: "input[3]" });
      return { vectors: Array.from({ length: inputs }, () => new Float32Array(2)), promptTokens: inputs };
    };
    const { core, open } = await createCoreHarness({ engines: [engine] });
    const answering = core.createEmbeddings(params(200), (await open("create_embeddings")).ctx);
    await expect(answering).rejects.toMatchObject({
      code: "context_length_exceeded",
      param: "input[131]",
      message: "input[131] is too long",
    });
  });

  it("fails over to the next deployment, except for an invalid request", async () => {
    const broken = new HandEngine(caps);
    const healthy = new HandEngine(caps);
    broken.embed = () => Promise.reject(new EngineError("engine_restarted", "gone", { retryable: true }));
    healthy.embed = async (inputs) => ({ vectors: [new Float32Array([1, 0])], promptTokens: inputs });
    const { core, open, settlements } = await createCoreHarness({ engines: [broken, healthy] });
    const { head } = await core.createEmbeddings(params(1), (await open("create_embeddings")).ctx);
    expect(head).toMatchObject({ deployment: "m/1", attempts: 2 });

    broken.embed = () => Promise.reject(new EngineError("bad_input", "input[0] is empty", { param: "input[0]" }));
    const wrong = core.createEmbeddings(params(1), (await open("create_embeddings")).ctx);
    await expect(wrong).rejects.toMatchObject({ code: "invalid_value", param: "input[0]" });
    expect(settlements).toMatchObject([
      { why: "completed", promptTokens: 1 },
      { why: "failed", promptTokens: 0 },
    ]);
  });

  it("waits at most a second for an engine that ignores its abort signal; the slot stays in use until the engine ends", async () => {
    const engine = new HandEngine(caps);
    let answer = (_result: EmbedResult): void => {};
    engine.embed = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const { core, open, clock, catalog, settlements } = await createCoreHarness({ engines: [engine] });
    const { ctx, end } = await open("create_embeddings");
    const answering = core.createEmbeddings(params(1), ctx).catch((error: unknown) => error);
    const queue = catalog.all()[0]?.room;
    await expect.poll(() => queue?.busy).toBe(1);
    end("client_left");
    await new Promise(setImmediate);
    expect(settlements).toHaveLength(0);
    clock.advance(1_000);
    await answering;
    expect(settlements).toMatchObject([{ why: "client_left" }]);
    expect(queue?.busy).toBe(1);
    answer({ vectors: [new Float32Array(2)], promptTokens: 2 });
    await expect.poll(() => queue?.busy).toBe(0);
  });
});
