import { afterEach, describe, expect, it } from "vitest";
import type { GenEvent, LoadedModel } from "../../../../src/domain/engine/engine.js";
import { eventually } from "../../../support/eventually.js";
import { FakeLlama, type FakeLlamaOptions, outcome, tell, textOf } from "../../../support/llama/fake-llama.js";

const never = new AbortController().signal;
let fake: FakeLlama;

afterEach(() => fake.close());

async function loadFake(options: FakeLlamaOptions = {}): Promise<LoadedModel> {
  fake = new FakeLlama(options);
  return fake.load();
}

describe("LlamaModel", () => {
  it("emits all events of a message in order, even to a slow reader", async () => {
    const model = await loadFake();
    const events: GenEvent[] = [];
    await model.generate(tell("say 2000"), never, async (event) => {
      if (events.length % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      events.push(event);
    });
    expect(textOf(events)).toBe(Array.from({ length: 2000 }, (_, i) => `t${i + 1} `).join(""));
    expect(events.at(-1)).toMatchObject({ type: "usage", outTokens: 2000 });
    expect(model.stats()).toEqual({ slotsBusy: 0, producedTokens: 2000, restarts: 0, memoryBytes: 64_000_000 });
  });

  it("passes an error of the child on, with its code and param", async () => {
    const model = await loadFake();
    const { error } = await outcome(model, "refuse");
    expect(error).toMatchObject({ code: "bad_schema", param: "response_format", message: "no", retryable: false });
  });

  it("rejects generations and embeddings if all slots are busy", async () => {
    const model = await loadFake();
    const abort = new AbortController();
    const running = [outcome(model, "endless", abort.signal), outcome(model, "endless", abort.signal)];
    expect(model.stats().slotsBusy).toBe(2);
    expect((await outcome(model, "say 1")).error).toMatchObject({ code: "overloaded", retryable: true });
    abort.abort();
    await Promise.all(running);
    expect((await outcome(model, "say 1")).error).toBeNull();
  });

  it("rejects a text that cannot fit into the context, without a message to the child (E-3)", async () => {
    const model = await loadFake();
    const most = 513 * 8;
    const atLeast = (tokens: number): object => ({
      code: "context_overflow",
      message: expect.stringContaining(`context length is 512 tokens, but the prompt has at least ${tokens} tokens`),
    });
    expect((await outcome(model, `say 1 ${"x".repeat(most - 6)}`)).error).toBeNull();
    expect((await outcome(model, `say 1 ${"x".repeat(most - 5)}`)).error).toMatchObject(atLeast(514));
    expect((await outcome(model, `say 1 ${"é".repeat(most)}`)).error).toMatchObject(atLeast(1027));
    await expect(model.countTokens?.({ prompt: "x".repeat(most + 1) }, never)).rejects.toMatchObject(atLeast(514));
    await expect(model.countTokens?.({ prompt: [1, ...new Array(512).fill(1)] }, never)).rejects.toMatchObject({
      message: expect.stringContaining("the prompt has 513 tokens"),
    });
    expect(model.stats().slotsBusy).toBe(0);
    await fake.close();
    const encoder = await loadFake({ kind: "embedding" });
    await expect(encoder.embed({ inputs: ["a", "x".repeat(most + 1)] }, never)).rejects.toMatchObject({
      code: "context_overflow",
      param: "input[1]",
    });
  });

  it("has the request defaults that come with its file", async () => {
    const sampling = { temperature: 0.2, topP: null, minP: null, repetitionPenalty: 1.1 };
    const defaults = { ...sampling, maxTokens: 256, stop: [], system: null };
    expect((await loadFake({ defaults })).defaults).toEqual(defaults);
    await fake.close();
    expect((await loadFake()).defaults).toBeUndefined();
  });

  it("counts tokens without a slot", async () => {
    const model = await loadFake();
    expect(await model.countTokens?.({ prompt: [1, 2, 3] }, never)).toBe(7);
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("reports the capabilities of the loaded model", async () => {
    const chat = await loadFake();
    expect(chat).toMatchObject({ id: "m", fingerprint: "0123456789ab" });
    expect(chat.caps).toMatchObject({
      chat: true,
      embeddings: false,
      contextLength: 512,
      maxOutput: 512,
      tools: "auto",
    });
    await fake.close();
    const embedding = await loadFake({ kind: "embedding" });
    expect(embedding.caps).toMatchObject({ chat: false, completion: false, embeddings: true, embeddingDims: 4 });
    expect(embedding.caps).toMatchObject({ shortenableEmbeddings: true, maxEmbedTokens: 512, tools: "none" });
  });

  it("shortens vectors and normalizes them again (EMB-8)", async () => {
    const model = await loadFake({ kind: "embedding" });
    const whole = await model.embed({ inputs: ["a", "b"] }, never);
    expect(whole.vectors).toEqual([new Float32Array([0.5, 0.5, 0.5, 0.5]), new Float32Array([0.5, 0.5, 0.5, 0.5])]);
    const short = await model.embed({ inputs: ["a", "b"], dimensions: 2 }, never);
    expect(short.promptTokens).toBe(2);
    expect(short.vectors).toHaveLength(2);
    for (const vector of short.vectors) {
      expect(vector).toHaveLength(2);
      expect(Math.hypot(...vector)).toBeCloseTo(1, 6);
    }
    expect((await outcome(model, "say 1")).error).toMatchObject({ code: "unsupported" });
    expect(await model.countTokens?.({ prompt: "a" }, never)).toBeNull();
  });

  it("waits on unload for running calls, then ends the child and rejects new calls", async () => {
    const model = await loadFake();
    const pid = Number(textOf((await outcome(model, "pid")).events));
    const abort = new AbortController();
    const running = outcome(model, "endless", abort.signal);
    let isUnloaded = false;
    const unloaded = model.unload(60_000).then(() => {
      isUnloaded = true;
    });
    expect((await outcome(model, "say 1")).error).toMatchObject({ code: "model_not_loaded", retryable: true });
    await expect(model.countTokens?.({ prompt: "" }, never)).rejects.toMatchObject({ code: "model_not_loaded" });
    expect(isUnloaded).toBe(false);
    abort.abort();
    expect((await running).error?.code).toBe("aborted");
    await unloaded;
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    expect(fake.lines("engine process ended")).toEqual([]);
  });

  it("ends calls on unload that still run after the grace period", async () => {
    const model = await loadFake();
    const running = outcome(model, "endless");
    const unloaded = model.unload(500);
    fake.clock.advance(500);
    await unloaded;
    expect((await running).error?.code).toBe("engine_restarted");
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("kills a child on unload that does not exit within two seconds", async () => {
    const model = await loadFake();
    const pid = Number(textOf((await outcome(model, "pid")).events));
    process.kill(pid, "SIGSTOP");
    const unloaded = model.unload(0);
    await eventually(() => fake.clock.pending > 0);
    fake.clock.advance(2_000);
    await unloaded;
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});
