import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../gen/unified/inference/v1/chat_pb.js";
import { EngineError, type GenEvent, type GenerateRequest, type LoadedModel } from "../../src/domain/engine/engine.js";
import type { AbortFlag } from "../../src/lib/abort-source.js";

/** The models that a tested engine provides. Consecutive tests may share a model. */
export interface EngineHarness {
  /** A chat model with 2 slots and a context of at most 4,096 tokens that answers immediately with at least 20 tokens. */
  chat(): Promise<LoadedModel>;
  /** A chat model as in `chat`, but its answer takes at least 5 s, with a token at least every 50 ms. */
  slowChat(): Promise<LoadedModel>;
  /** A chat model as in `slowChat`, which only one test uses and unloads. */
  ownSlowChat(): Promise<LoadedModel>;
  /** An embedding model; or the reason why there is none, as a string. */
  embeddings: (() => Promise<LoadedModel>) | string;
  /** A reranking model; null: the engine has none. */
  rerank: (() => Promise<LoadedModel>) | null;
}

const never = new AbortController().signal;
/** Time limit of an abort. It is far longer than an abort takes, so that a busy machine does not affect the result. */
const abortWithinMs = 1_000;

function request(changes: Partial<GenerateRequest> = {}): GenerateRequest {
  const message = create(MessageSchema, {
    role: Role.USER,
    content: [{ part: { case: "text", value: "Tell me a story" } }],
  });
  return {
    requestId: "req_1",
    input: { messages: [message], tools: [], toolChoice: { mode: "none" }, parallelToolCalls: true },
    n: 1,
    maxTokens: 60,
    stop: [],
    temperature: 0,
    topP: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    queueMs: 0,
    cacheKey: "default",
    deltas: "each",
    ...changes,
  };
}

async function all(model: LoadedModel, request: GenerateRequest, signal: AbortFlag = never): Promise<GenEvent[]> {
  const seen: GenEvent[] = [];
  await model.generate(request, signal, (event) => {
    seen.push(event);
    return undefined;
  });
  return seen;
}

function textOf(events: readonly GenEvent[], choice = 0): string {
  return events.map((event) => (event.type === "text" && event.choice === choice ? event.text : "")).join("");
}

async function engineError(promise: Promise<unknown>): Promise<EngineError> {
  const thrown = await promise.then(
    () => null,
    (error: unknown) => error,
  );
  if (thrown instanceof EngineError) return thrown;
  throw new Error("expected an EngineError", { cause: thrown });
}

/** Tests of the contract that every engine fulfils. */
export function describeEngine(name: string, harness: EngineHarness): void {
  describe(`${name}: generate`, () => {
    it("emits accepted first and usage last, and finishes every choice once", async () => {
      const model = await harness.chat();
      const events = await all(model, request());
      expect(events[0]?.type).toBe("accepted");
      expect(events.at(-1)?.type).toBe("usage");
      expect(events.filter((event) => event.type === "finish")).toHaveLength(1);
      expect(events.at(-2)?.type).toBe("finish");
    });

    it("token counts never decrease, and the usage equals the counts of the finished choices", async () => {
      const model = await harness.chat();
      const before = model.stats().producedTokens;
      const events = await all(model, request());
      const counts = events.flatMap((event) =>
        event.type === "text" || event.type === "finish" ? [event.outTokens] : [],
      );
      expect(counts).toEqual(counts.toSorted((a, b) => a - b));
      const usage = events.at(-1);
      expect(usage).toMatchObject({ type: "usage", outTokens: counts.at(-1) });
      expect(model.stats().producedTokens - before).toBe(counts.at(-1));
    });

    it("finishes with length after exactly the maximum number of tokens (CHAT-6)", async () => {
      const model = await harness.chat();
      const events = await all(model, request({ maxTokens: 5 }));
      expect(events.find((event) => event.type === "finish")).toMatchObject({ reason: "length", outTokens: 5 });
    });

    it("merged and single deltas give the same text (STRM-18)", async () => {
      const model = await harness.chat();
      const each = await all(model, request({ deltas: "each" }));
      const joined = await all(model, request({ deltas: "joined" }));
      expect(textOf(joined)).toBe(textOf(each));
      expect(joined.length).toBeLessThanOrEqual(each.length);
    });

    it("stops before a stop string, which is in no delta (CHAT-8)", async () => {
      const model = await harness.chat();
      const whole = textOf(await all(model, request()));
      const middle = Math.floor(whole.length / 2);
      const stop = whole.slice(middle, middle + 5);
      for (const deltas of ["each", "joined"] as const) {
        const events = await all(model, request({ stop: [stop], deltas }));
        expect(textOf(events)).toBe(whole.slice(0, whole.indexOf(stop)));
        expect(events.find((event) => event.type === "finish")).toMatchObject({ reason: "stop" });
      }
    });

    it("the usage of several choices counts the prompt once and the tokens of all choices (CHAT-3)", async () => {
      const model = await harness.chat();
      if (!model.caps.nativeN) return;
      const one = (await all(model, request({ maxTokens: 5 }))).at(-1);
      const three = await all(model, request({ maxTokens: 5, n: 3 }));
      expect(three.at(-1)).toMatchObject({
        outTokens: 15,
        promptTokens: one?.type === "usage" ? one.promptTokens : null,
      });
      const finished = three.flatMap((event) => (event.type === "finish" ? [event.choice] : []));
      expect(finished.toSorted()).toEqual([0, 1, 2]);
    });

    it("rejects a prompt above its context with the message that clients search for (ERR-26)", async () => {
      const model = await harness.chat();
      const long = create(MessageSchema, {
        role: Role.USER,
        content: [{ part: { case: "text", value: "word ".repeat((model.caps.contextLength ?? 0) + 10) } }],
      });
      const input = { messages: [long], tools: [], toolChoice: { mode: "none" }, parallelToolCalls: true } as const;
      const error = await engineError(all(model, request({ input })));
      expect(error.code).toBe("context_overflow");
      expect(error.message).toContain(`maximum context length is ${model.caps.contextLength} tokens`);
      expect(model.stats().slotsBusy).toBe(0);
    });

    it("rejects calls when all slots are busy, and accepts the next one when a slot is free", async () => {
      const model = await harness.slowChat();
      const aborts = [new AbortController(), new AbortController()];
      const running = aborts.map(async (abort) => engineError(all(model, request(), abort.signal)));
      await expect.poll(() => model.stats().slotsBusy).toBe(2);
      const refused = await engineError(all(model, request()));
      expect(refused).toMatchObject({ code: "overloaded", retryable: true });
      for (const abort of aborts) abort.abort();
      await Promise.all(running);
      expect(model.stats().slotsBusy).toBe(0);
    });
  });

  describe(`${name}: abort`, () => {
    it("stops in the middle of an answer, reports the tokens produced so far and frees the slot", async () => {
      const model = await harness.slowChat();
      const abort = new AbortController();
      let seen = 0;
      let abortedAtMs = 0;
      const reading = model.generate(request(), abort.signal, (event) => {
        if (event.type !== "text") return undefined;
        seen = event.outTokens;
        if (seen < 3 || abort.signal.aborted) return undefined;
        abortedAtMs = performance.now();
        setImmediate(() => abort.abort());
        return undefined;
      });
      const error = await engineError(reading);
      expect(performance.now() - abortedAtMs).toBeLessThan(abortWithinMs);
      expect(error.code).toBe("aborted");
      expect(error.usage?.outTokens).toBeGreaterThanOrEqual(seen);
      expect(error.usage?.promptTokens).toBeGreaterThan(0);
      expect(model.stats().slotsBusy).toBe(0);
    });

    it("produces nothing for a signal that is already aborted", async () => {
      const model = await harness.chat();
      const { producedTokens } = model.stats();
      const error = await engineError(all(model, request(), AbortSignal.abort()));
      expect(error).toMatchObject({ code: "aborted", usage: { outTokens: 0 } });
      expect(model.stats()).toMatchObject({ slotsBusy: 0, producedTokens });
    });

    it("rejects with the error that the reader threw, and frees the slot", async () => {
      const model = await harness.slowChat();
      const reading = model.generate(request(), never, (event) => {
        if (event.type === "text") throw new Error("the reader failed");
        return undefined;
      });
      await expect(reading).rejects.toThrow("the reader failed");
      await expect.poll(() => model.stats().slotsBusy).toBe(0);
    });
  });

  describe(`${name}: backpressure`, () => {
    it("emits no event while the reader has not taken the one before it", async () => {
      const model = await harness.chat();
      const seen: GenEvent[] = [];
      let untaken = 0;
      await model.generate(request(), never, async (event) => {
        untaken += 1;
        expect(untaken).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        untaken -= 1;
        seen.push(event);
      });
      expect(seen).toEqual(await all(model, request()));
    });
  });

  describe(`${name}: unload`, () => {
    it("lets running calls continue for the grace period, then ends them and accepts no more", async () => {
      const model = await harness.ownSlowChat();
      const running = engineError(all(model, request()));
      await expect.poll(() => model.stats().slotsBusy).toBe(1);
      await model.unload(20);
      expect((await running).code).toBe("engine_restarted");
      expect((await engineError(all(model, request()))).code).toBe("model_not_loaded");
    });
  });

  const { embeddings, rerank } = harness;
  describe(`${name}: rerank`, () => {
    const ranked = { query: "a cat", documents: ["a dog", "a cat", "a cat"] };

    it("is rejected for a model that does not support it", async () => {
      const model = await harness.chat();
      expect(model.caps.rerank).toBe(false);
      expect((await engineError(model.rerank(ranked, never))).code).toBe("unsupported");
    });
    if (rerank === null) return;

    it("returns one score per document, in order, higher for a more relevant one (RANK-2)", async () => {
      const { scores, promptTokens } = await (await rerank()).rerank(ranked, never);
      const [dog = 0, cat = 0, ...others] = scores;
      expect(others).toEqual([cat]);
      expect(cat).toBeGreaterThan(dog);
      expect(promptTokens).toBeGreaterThan(0);
    });

    it("names the document that exceeds the context (RANK-7)", async () => {
      const model = await rerank();
      const documents = ["short", "word ".repeat((model.caps.contextLength ?? 0) + 10)];
      const error = await engineError(model.rerank({ query: "q", documents }, never));
      expect(error).toMatchObject({ code: "context_overflow", param: "documents[1]" });
    });

    it("stops for a signal that is already aborted", async () => {
      const model = await rerank();
      expect((await engineError(model.rerank(ranked, AbortSignal.abort()))).code).toBe("aborted");
      expect(model.stats().slotsBusy).toBe(0);
    });
  });

  if (typeof embeddings === "string") {
    describe(`${name}: embed`, () => {
      it.skip(`skipped: ${embeddings}`, () => {});
    });
    return;
  }
  describe(`${name}: embed`, () => {
    it("returns one unit vector per input, in order, the same each time (EMB-4, EMB-9)", async () => {
      const model = await embeddings();
      const inputs = ["a cat", "a dog", "a cat"];
      const { vectors, promptTokens } = await model.embed({ inputs }, never);
      expect(vectors).toHaveLength(3);
      expect(promptTokens).toBeGreaterThan(0);
      for (const vector of vectors) {
        expect(vector).toHaveLength(model.caps.embeddingDims ?? 0);
        expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
      }
      // The last digits of a vector depend on the batch in which its input is evaluated.
      const [cat = [], dog = [], again = []] = vectors.map((vector) => [...vector]);
      for (const [i, number] of cat.entries()) expect(again[i]).toBeCloseTo(number, 5);
      expect(cat.some((number, i) => Math.abs(number - (dog[i] ?? 0)) > 0.01)).toBe(true);
    });

    it("names the input that exceeds the context (EMB-1)", async () => {
      const model = await embeddings();
      const inputs = ["short", "word ".repeat((model.caps.maxEmbedTokens ?? 0) + 10)];
      const error = await engineError(model.embed({ inputs }, never));
      expect(error).toMatchObject({ code: "context_overflow", param: "input[1]" });
    });

    it("stops for a signal that is already aborted", async () => {
      const model = await embeddings();
      expect((await engineError(model.embed({ inputs: ["a"] }, AbortSignal.abort()))).code).toBe("aborted");
      expect(model.stats().slotsBusy).toBe(0);
    });
  });
}
