import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import type { ChatCompletionChunk } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionParamsSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import { EmbeddingParamsSchema } from "../../../../gen/unified/inference/v1/embedding_pb.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { EngineError, type EngineErrorCode } from "../../../../src/domain/engine/engine.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { chat, failure } from "./limited-harness.js";

const down = () => new EngineError("upstream_error", "reset");
const usage = { promptTokens: 9, outTokens: 5, cachedTokens: 0 };
const text = (value: string) => ({ type: "text", choice: 0, text: value, outTokens: 5 }) as const;

/** A core whose model `m` has the fallbacks `small` and `tiny`, each in an engine of its own. */
async function startCore(options: Partial<Parameters<typeof createCoreHarness>[0]> = {}) {
  const [main, small, tiny] = [new HandEngine(), new HandEngine(), new HandEngine()];
  const harness = await createCoreHarness({ engines: [main], fallbacks: { small, tiny }, ...options });
  return { ...harness, main, small, tiny };
}

/** An engine that cannot load any model. */
function unloadable(): HandEngine {
  const engine = new HandEngine();
  engine.load = () => Promise.reject(new EngineError("model_not_loaded", "no weights"));
  return engine;
}

async function textOf(items: AsyncIterable<ChatCompletionChunk>): Promise<string> {
  let all = "";
  for await (const { choices } of items) all += choices[0]?.delta?.content ?? "";
  return all;
}

describe("fallback models", () => {
  it("answer when every deployment failed, under the requested model's name, but with their own usage and price (REL-21)", async () => {
    const { core, open, main, small, catalog, settlements } = await startCore({
      prices: [{ fromMs: 0, input: 1_000, cachedInput: 1_000, output: 1_000 }],
    });
    const prices = [{ fromMs: 0, input: 10, cachedInput: 10, output: 100 }];
    catalog.revise(new Map([["small", { prices, defaults: null }]]));
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    const run = await main.run();
    run.say({ type: "accepted", promptTokens: 9, cachedTokens: 0 }, text("Half an "));
    run.fail(new EngineError("upstream_error", "reset", { usage }));
    (await small.run()).answer("Here.");
    const { head, body } = await answering;
    expect(body).toMatchObject({ model: "m", choices: [{ message: { content: "Here." } }] });
    expect(head).toMatchObject({ deployment: "small/0", attempts: 2, fallbackModel: "small" });
    expect(settlements).toMatchObject([
      { model: "small", why: "completed", promptTokens: 3, completionTokens: 1, costNano: 130 },
    ]);
  });

  it.each(["timeout", "rate_limited", "unauthorized", "overloaded", "engine_restarted"] as EngineErrorCode[])(
    "answer after the failure %s (REL-21)",
    async (code) => {
      const { core, open, main, small } = await startCore();
      const answering = core.createChatCompletion(chat(), (await open()).ctx);
      (await main.run()).fail(new EngineError(code, "failed"));
      (await small.run()).answer("Here.");
      expect((await answering).head.fallbackModel).toBe("small");
    },
  );

  it.each([
    ["context_overflow", "context_length_exceeded"],
    ["bad_input", "invalid_value"],
    ["unsupported", "unsupported_parameter"],
    ["internal", "internal_error"],
  ] as const)("are not used after %s: another model would not help (REL-21)", async (code, answered) => {
    const { core, open, main, small, settlements } = await startCore();
    const answering = failure(core.createChatCompletion(chat(), (await open()).ctx));
    (await main.run()).fail(new EngineError(code, "at fault"));
    expect((await answering).code).toBe(answered);
    expect(small.runs).toHaveLength(0);
    expect(settlements).toMatchObject([{ model: "m", error: answered }]);
  });

  it("answer when the model did not load; a fallback that did not load is skipped (REL-21)", async () => {
    const tiny = new HandEngine();
    const { core, open, settlements } = await startCore({
      engines: [unloadable()],
      fallbacks: { small: unloadable(), tiny },
    });
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    (await tiny.run()).answer("Here.");
    expect((await answering).head).toMatchObject({ deployment: "tiny/0", attempts: 1, fallbackModel: "tiny" });
    expect(settlements).toMatchObject([{ model: "tiny", why: "completed" }]);
  });

  it("answer when the model's queue is full (REL-21)", async () => {
    const { core, open, main, small } = await startCore({ deployment: { slots: 1, queueMax: 0 } });
    void core.createChatCompletion(chat(), (await open()).ctx);
    await main.run();
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    (await small.run()).answer("Here.");
    expect((await answering).head).toMatchObject({ deployment: "small/0", attempts: 1 });
    expect(main.runs).toHaveLength(1);
  });

  it("answer a stream that has no content yet, even if its headers were sent; the trailers then name the fallback (REL-21)", async () => {
    const { core, open, clock, main, small } = await startCore();
    const streaming = core.streamChatCompletion(chat(), (await open()).ctx);
    const run = await main.run();
    clock.advance(2_000);
    const { head, items, route } = await streaming;
    expect(head).toMatchObject({ deployment: "m/0", attempts: 1, fallbackModel: null });
    run.fail(down());
    (await small.run()).answer("Here.");
    expect(await textOf(items)).toBe("Here.");
    expect(route()).toEqual({ deployment: "small/0", attempts: 2, fallbackModel: "small" });
  });

  it("are not used for a stream whose content was sent (REL-21)", async () => {
    const { core, open, main, small, settlements } = await startCore();
    const streaming = core.streamChatCompletion(chat(), (await open()).ctx);
    const run = await main.run();
    run.say(text("Hi"));
    const { items } = await streaming;
    run.fail(down());
    expect((await failure(textOf(items))).code).toBe("upstream_error");
    expect(small.runs).toHaveLength(0);
    expect(settlements).toMatchObject([{ model: "m", completionTokens: 5 }]);
  });

  it("are tried in order, only those that can run the request; their own fallbacks are not followed (REL-21)", async () => {
    const unable = new HandEngine({ chat: false, completion: false, embeddings: true });
    const [small, tiny] = [new HandEngine(), new HandEngine()];
    const { core, open, main, catalog } = await startCore({ fallbacks: { unable, small, tiny } });
    const first = core.createChatCompletion(chat(), (await open()).ctx);
    (await main.run()).fail(down());
    (await small.run()).fail(down());
    (await tiny.run()).answer("Here.");
    expect((await first).head).toMatchObject({ deployment: "tiny/0", attempts: 3 });
    expect(unable.runs).toHaveLength(0);

    const requested = catalog.all().find(({ id }) => id === "m");
    expect(requested?.fallbacks).toEqual(["unable", "small", "tiny"]);
    const last = failure(core.createChatCompletion(chat({ model: "small" }), (await open()).ctx));
    (await small.run(1)).fail(down());
    expect((await last).code).toBe("upstream_error");
    expect(tiny.runs).toHaveLength(1);
  });

  it("are skipped if their context is too short; if one finds the request itself invalid, that error is returned (REL-21)", async () => {
    const { core, open, main, small, tiny } = await startCore();
    const first = core.createChatCompletion(chat(), (await open()).ctx);
    (await main.run()).fail(down());
    (await small.run()).fail(new EngineError("context_overflow", "maximum context length is 4 tokens"));
    (await tiny.run()).answer("Here.");
    expect((await first).head.fallbackModel).toBe("tiny");

    const second = failure(core.createChatCompletion(chat(), (await open()).ctx));
    (await main.run(1)).fail(down());
    (await small.run(1)).fail(new EngineError("bad_input", "The image cannot be read."));
    expect(await second).toMatchObject({ code: "invalid_value", message: "The image cannot be read." });
    expect(tiny.runs).toHaveLength(1);
  });

  it("return the requested model's error if they all fail, and the request is settled under that model at no cost (REL-21)", async () => {
    const { core, open, main, small, tiny, settlements } = await startCore();
    const answering = failure(core.createChatCompletion(chat(), (await open()).ctx));
    (await main.run()).fail(new EngineError("timeout", "slow"));
    (await small.run()).fail(down());
    const run = await tiny.run();
    run.say({ type: "accepted", promptTokens: 9, cachedTokens: 0 }, text("Half an "));
    run.fail(new EngineError("upstream_error", "reset", { usage }));
    expect((await answering).code).toBe("upstream_timeout");
    expect(settlements).toMatchObject([
      { model: "m", error: "upstream_timeout", promptTokens: 0, completionTokens: 0 },
    ]);
  });

  it("are not used when the client disabled them, nor after it disconnected (REL-21)", async () => {
    const { core, open, main, small, settlements } = await startCore();
    const refusing = (await open("create_chat_completion", Infinity, { refusesFallbacks: true })).ctx;
    const refused = failure(core.createChatCompletion(chat(), refusing));
    (await main.run()).fail(down());
    expect((await refused).code).toBe("upstream_error");

    const { ctx, end } = await open();
    const left = failure(core.createChatCompletion(chat(), ctx));
    await main.run(1);
    end("client_left");
    expect((await left).code).toBe("client_closed_request");
    expect(small.runs).toHaveLength(0);
    expect(settlements.map(({ model, why }) => [model, why])).toEqual([
      ["m", "failed"],
      ["m", "client_left"],
    ]);
  });

  it("are not used when a limit rejects the request (REL-21)", async () => {
    const rateLimits = { key: unlimited, account: { ...unlimited, requestsPerMinute: 1 }, models: new Map() };
    const { core, open, main, small } = await startCore({ rateLimits });
    const first = core.createChatCompletion(chat(), (await open()).ctx);
    (await main.run()).answer("Here.");
    await first;
    const second = await failure(core.createChatCompletion(chat(), (await open()).ctx));
    expect(second.code).toBe("rate_limit_exceeded");
    expect(small.runs).toHaveLength(0);
  });

  it("answer a batch of prompts as a whole, and embeddings (REL-21)", async () => {
    const main = new HandEngine({ embeddings: true });
    const small = new HandEngine({ embeddings: true, nativeN: false });
    main.embed = () => Promise.reject(down());
    small.embed = async () => ({ vectors: [Float32Array.of(1)], promptTokens: 2 });
    const { core, open, settlements } = await startCore({ engines: [main], fallbacks: { small } });
    const params = create(CompletionParamsSchema, { model: "m", prompt: ["a", "b"], n: 2 });
    const answering = core.createCompletion(params, (await open("create_completion")).ctx);
    const first = await main.run(0);
    for (const choice of [0, 1]) {
      first.say({ ...text("lost"), choice }, { type: "finish", choice, reason: "stop", outTokens: 5 });
    }
    first.end();
    (await main.run(1)).fail(down());
    for (let i = 0; i < 4; i++) (await small.run(i)).answer(`${i}`);
    const { body } = await answering;
    expect(body.choices.map((choice) => choice.text)).toEqual(["0", "1", "2", "3"]);
    expect(body.model).toBe("m");

    const embedding = create(EmbeddingParamsSchema, { model: "m", input: ["a"] });
    const list = await core.createEmbeddings(embedding, (await open("create_embeddings")).ctx);
    expect(list).toMatchObject({ head: { fallbackModel: "small", attempts: 2 }, body: { model: "m" } });
    expect(settlements).toMatchObject([
      { model: "small", promptTokens: 6, completionTokens: 4 },
      { model: "small", promptTokens: 2 },
    ]);
  });
});
