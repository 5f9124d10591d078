import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type ChatCompletionChunk, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionParamsSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import type { StreamAnswer } from "../../../../src/domain/call/call-context.js";
import { EngineError } from "../../../../src/domain/engine/engine.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { chat, createLimitedHarness, failure } from "./limited-harness.js";

async function read(answer: StreamAnswer<ChatCompletionChunk>) {
  const chunks: ChatCompletionChunk[] = [];
  for await (const item of answer.items) if ("choices" in item) chunks.push(item);
  return chunks;
}

const text = (choice: number, value: string, outTokens: number) =>
  ({ type: "text", choice, text: value, outTokens }) as const;
const finish = (choice: number, outTokens: number) => ({ type: "finish", choice, reason: "stop", outTokens }) as const;

describe("a whole answer", () => {
  it("is settled once, before it is returned, with the usage that the engine reports", async () => {
    const engine = new HandEngine();
    const { core, open, settlements, live, clock } = await createCoreHarness({ engines: [engine] });
    const { ctx } = await open();
    const answering = core.createChatCompletion(chat(), ctx);
    (await engine.run()).answer("Hello.");
    const { body, head } = await answering;
    expect(body).toMatchObject({
      model: "m",
      choices: [{ message: { content: "Hello." }, finishReason: "stop" }],
      usage: { totalTokens: 4 },
    });
    expect(head).toMatchObject({ deployment: "m/0", attempts: 1, degraded: false });
    expect(settlements).toHaveLength(1);
    expect(settlements[0]).toMatchObject({
      why: "completed",
      promptTokens: 3,
      completionTokens: 1,
      requestId: ctx.requestId,
      error: null,
    });
    expect(live.countByStage()).toEqual({ delivering: 1 });
    ctx.close();
    ctx.close();
    expect([live.size, clock.pending]).toEqual([0, 0]);
  });

  it("hides an unknown error of an engine and settles the request as failed (ERR-22)", async () => {
    const engine = new HandEngine();
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const answering = failure(core.createChatCompletion(chat(), (await open()).ctx));
    (await engine.run()).fail(new Error("secret path /etc/passwd"));
    const error = await answering;
    expect(error.code).toBe("internal_error");
    expect(error.message).not.toContain("passwd");
    expect(settlements).toMatchObject([{ why: "failed", error: "internal_error" }]);
  });

  it("an engine that ends before it finished is an upstream error, never a short answer (ERR-23)", async () => {
    const engine = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [engine] });
    const answering = failure(core.createChatCompletion(chat(), (await open()).ctx));
    const run = await engine.run();
    run.say(text(0, "Hel", 1));
    run.end();
    expect((await answering).code).toBe("upstream_error");
  });
});

describe("a streamed answer", () => {
  it("is committed at the first content, not when the slot is granted (SSE-13)", async () => {
    const engine = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [engine] });
    let committed = false;
    const answering = core.streamChatCompletion(chat(), (await open()).ctx).then((answer) => {
      committed = true;
      return answer;
    });
    const run = await engine.run();
    run.say({ type: "accepted", promptTokens: 3, cachedTokens: 0 });
    await new Promise(setImmediate);
    expect(committed).toBe(false);
    run.say(text(0, "Hi", 1), finish(0, 1));
    run.end();
    expect(await read(await answering)).toHaveLength(4);
  });

  it("is committed after 2 s in a slot without output; a later failure is sent in the stream (SSE-13)", async () => {
    const engine = new HandEngine();
    const { core, open, clock } = await createCoreHarness({ engines: [engine] });
    const answering = core.streamChatCompletion(chat(), (await open()).ctx);
    const run = await engine.run();
    clock.advance(2_000);
    const answer = await answering;
    run.fail(new EngineError("engine_restarted", "the child died"));
    expect((await failure(read(answer))).code).toBe("upstream_error");
  });

  it("fails with an HTTP status if the engine fails before the first output (SSE-12)", async () => {
    const engine = new HandEngine();
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const answering = failure(core.streamChatCompletion(chat(), (await open()).ctx));
    (await engine.run()).fail(new EngineError("timeout", "too slow"));
    expect((await answering).code).toBe("upstream_timeout");
    expect(settlements).toMatchObject([{ why: "failed", error: "upstream_timeout" }]);
  });

  it("begins every choice with its role, in order, whichever choice has output first (STRM-1, STRM-4)", async () => {
    const engine = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [engine] });
    const answering = core.streamChatCompletion(chat({ n: 2 }), (await open()).ctx);
    const run = await engine.run();
    run.say(text(1, "b", 1), text(0, "a", 1), finish(1, 1), finish(0, 1));
    run.end();
    const chunks = await read(await answering);
    const seen = chunks.map(
      ({ choices: [choice] }) =>
        choice && [choice.index, choice.delta?.role ?? choice.delta?.content ?? choice.finishReason],
    );
    expect(seen).toEqual([
      [0, Role.ASSISTANT],
      [1, Role.ASSISTANT],
      [1, "b"],
      [0, "a"],
      [1, "stop"],
      [0, "stop"],
      undefined,
    ]);
  });

  it("ends with one chunk that has the usage and no choice, after the settlement (STRM-12)", async () => {
    const engine = new HandEngine();
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const answering = core.streamChatCompletion(chat(), (await open()).ctx);
    (await engine.run()).answer("Hi");
    const chunks = await read(await answering);
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { promptTokens: 3, completionTokens: 1, totalTokens: 4 },
    });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === undefined)).toBe(true);
    expect(settlements).toHaveLength(1);
  });

  /** A stream whose reader reads nothing while the engine fills the stream's buffer. */
  async function unreadStream(isForwarded: boolean) {
    const engine = new HandEngine();
    const { core, open, clock, settlements } = await createCoreHarness({ engines: [engine] });
    const { ctx, end } = await open("create_chat_completion", Number.POSITIVE_INFINITY, { isForwarded });
    const answering = core.streamChatCompletion(chat(), ctx);
    const run = await engine.run();
    run.usage = { promptTokens: 3, outTokens: 9, cachedTokens: 0 };
    for (let i = 1; i <= 9; i++) run.say(text(0, "x".repeat(16 * 1024), i));
    await answering;
    await new Promise(setImmediate);
    return { run, clock, settlements, end };
  }

  it("makes the engine wait for a reader that does not read, and ends as stalled after 30 s (REL-1)", async () => {
    const { run, clock, settlements } = await unreadStream(false);
    clock.advance(29_999);
    expect(settlements).toHaveLength(0);
    clock.advance(1);
    await expect.poll(() => settlements).toMatchObject([{ why: "stalled", completionTokens: 9 }]);
    expect(run.signal.aborted).toBe(true);
  });

  it("makes the engine wait for a gateway that does not read, without a limit of its own (REL-24)", async () => {
    const { run, clock, settlements, end } = await unreadStream(true);
    clock.advance(60_000);
    expect(run.signal.aborted).toBe(false);
    end("client_left");
    await expect.poll(() => settlements).toMatchObject([{ why: "client_left", completionTokens: 9 }]);
  });
});

describe("the end of a request", () => {
  it("a client's disconnect aborts the engine immediately, and the usage so far is settled (REL-2)", async () => {
    const engine = new HandEngine();
    const { core, open, settlements, live } = await createCoreHarness({ engines: [engine] });
    const { ctx, end } = await open();
    const answering = core.streamChatCompletion(chat(), ctx);
    const run = await engine.run();
    run.say({ type: "accepted", promptTokens: 3, cachedTokens: 0 }, text(0, "Hel", 1));
    const reading = failure(read(await answering));
    run.usage = { promptTokens: 3, outTokens: 5, cachedTokens: 0 };
    end("client_left");
    expect((await reading).code).toBe("client_closed_request");
    expect(settlements).toMatchObject([{ why: "client_left", promptTokens: 3, completionTokens: 5 }]);
    ctx.close();
    expect(live.size).toBe(0);
  });

  it("the deadline ends the request, whatever the client does (REL-7)", async () => {
    const engine = new HandEngine();
    const { core, open, clock, settlements } = await createCoreHarness({ engines: [engine] });
    const { ctx } = await open("create_chat_completion", clock.now() + 500);
    const answering = failure(core.createChatCompletion(chat(), ctx));
    await engine.run();
    clock.advance(500);
    expect((await answering).code).toBe("upstream_timeout");
    expect(settlements).toMatchObject([{ why: "deadline" }]);
  });

  it("a waiting client that disconnects is removed from the queue (REL-2)", async () => {
    const engine = new HandEngine();
    const { core, open, catalog, settlements } = await createCoreHarness({
      engines: [engine],
      deployment: { slots: 1 },
    });
    void core.createChatCompletion(chat(), (await open()).ctx);
    await engine.run();
    const { ctx, end } = await open();
    const waiting = failure(core.createChatCompletion(chat(), ctx));
    const queue = catalog.all()[0]?.room;
    await expect.poll(() => queue?.waiting).toBe(1);
    end("client_left");
    await waiting;
    expect([queue?.waiting, queue?.busy, engine.runs.length]).toEqual([0, 1, 1]);
    expect(settlements).toMatchObject([{ why: "client_left", promptTokens: 0, completionTokens: 0 }]);
  });

  it("waits at most a second for an engine that ignores its abort signal", async () => {
    const engine = new HandEngine();
    const { core, open, clock, settlements } = await createCoreHarness({ engines: [engine] });
    const { ctx, end } = await open();
    const answering = failure(core.createChatCompletion(chat(), ctx));
    const run = await engine.run();
    run.fail = () => {};
    end("client_left");
    await new Promise(setImmediate);
    expect(settlements).toHaveLength(0);
    clock.advance(1_000);
    await answering;
    expect(settlements).toMatchObject([{ why: "client_left" }]);
  });
});

describe("deployments and prompts", () => {
  it("uses the next deployment when one fails before the response is committed", async () => {
    const broken = new HandEngine();
    const healthy = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [broken, healthy] });
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    (await broken.run()).fail(new EngineError("upstream_error", "reset", { retryable: true }));
    (await healthy.run()).answer("Here.");
    expect((await answering).head).toMatchObject({ deployment: "m/1", attempts: 2 });
  });

  it("does not try another deployment with a request that is wrong, or after content was sent", async () => {
    const first = new HandEngine();
    const second = new HandEngine();
    const { core, open } = await createCoreHarness({ engines: [first, second] });
    const wrong = failure(core.createChatCompletion(chat(), (await open()).ctx));
    (await first.run(0)).fail(new EngineError("context_overflow", "maximum context length is 4 tokens"));
    expect((await wrong).code).toBe("context_length_exceeded");

    const streaming = core.streamChatCompletion(chat(), (await open()).ctx);
    const run = await first.run(1);
    run.say(text(0, "Hi", 1));
    const answer = await streaming;
    run.fail(new EngineError("upstream_error", "reset", { retryable: true }));
    expect((await failure(read(answer))).code).toBe("upstream_error");
    expect(second.runs).toHaveLength(0);
  });

  it("uses the next deployment for a stream that has no content yet, even if its headers were sent", async () => {
    const broken = new HandEngine();
    const healthy = new HandEngine();
    const { core, open, clock, settlements } = await createCoreHarness({ engines: [broken, healthy] });
    const streaming = core.streamChatCompletion(chat(), (await open()).ctx);
    const run = await broken.run();
    run.say({ type: "accepted", promptTokens: 3, cachedTokens: 0 });
    clock.advance(30_000);
    const answer = await streaming;
    expect(answer.head.deployment).toBe("m/0");
    run.fail(new EngineError("timeout", "silent", { usage: { promptTokens: 3, outTokens: 7, cachedTokens: 0 } }));
    (await healthy.run()).answer("Here.");
    expect(JSON.stringify(await read(answer), (_, value) => (typeof value === "bigint" ? 0 : value))).toContain(
      "Here.",
    );
    expect(settlements).toMatchObject([{ why: "completed", promptTokens: 3, completionTokens: 1 }]);
  });

  it("uses the next deployment when one fails in the middle of a whole answer, and charges only the successful try", async () => {
    const broken = new HandEngine();
    const healthy = new HandEngine();
    const { core, open, settlements } = await createCoreHarness({ engines: [broken, healthy] });
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    const run = await broken.run();
    run.say({ type: "accepted", promptTokens: 9, cachedTokens: 0 }, text(0, "Half an ", 5));
    run.fail(new EngineError("upstream_error", "reset", { usage: { promptTokens: 9, outTokens: 5, cachedTokens: 0 } }));
    (await healthy.run()).answer("Here.");
    const { body } = await answering;
    expect(body.choices.map(({ message }) => message?.content)).toEqual(["Here."]);
    expect(settlements).toMatchObject([{ promptTokens: 3, completionTokens: 1 }]);
  });

  it("numbers choices prompt by prompt, and counts a prompt once if an engine runs one choice at a time (CMPL-3, CMPL-13)", async () => {
    const engine = new HandEngine({ nativeN: false });
    const { core, open, settlements } = await createCoreHarness({ engines: [engine] });
    const params = create(CompletionParamsSchema, { model: "m", prompt: ["a", "b"], n: 2 });
    const answering = core.createCompletion(params, (await open("create_completion")).ctx);
    for (let i = 0; i < 4; i++) {
      const run = await engine.run(i);
      run.answer(`${"prompt" in run.request.input ? run.request.input.prompt : ""}${i}`);
    }
    const { body } = await answering;
    const texts = "choices" in body ? body.choices.map((choice) => choice.text[0]) : [];
    expect(texts).toEqual(["a", "a", "b", "b"]);
    expect(settlements).toMatchObject([{ promptTokens: 6, completionTokens: 4 }]);
  });

  it("never runs more prompts of a batch than the model has slots, and stops the others when one fails", async () => {
    const engine = new HandEngine();
    const { core, open, catalog, settlements } = await createCoreHarness({
      engines: [engine],
      deployment: { slots: 2 },
    });
    const params = create(CompletionParamsSchema, { model: "m", prompt: ["a", "b", "c", "d"] });
    const answering = failure(core.createCompletion(params, (await open("create_completion")).ctx));
    await engine.run(1);
    const queue = catalog.all()[0]?.room;
    expect([engine.runs.length, queue?.busy]).toEqual([2, 2]);
    engine.runs[1]?.fail(new EngineError("internal", "broken"));
    expect((await answering).code).toBe("internal_error");
    expect(engine.runs[0]?.signal.aborted).toBe(true);
    expect([engine.runs.length, queue?.busy]).toEqual([2, 0]);
    expect(settlements).toHaveLength(1);
  });
});

describe("open", () => {
  it("rejects a bad key, and every call while the service stops (ERR-11, ERR-12, ERR-24)", async () => {
    const { core, open } = await createCoreHarness({ engines: [new HandEngine()] });
    const caller = {
      authorization: "Bearer nobody-knows-this",
      deadlineAtMs: Infinity,
      transport: "openai",
      address: "",
    } as const;
    const refused = await failure(core.open("list_models", { ...caller, abort: new AbortSource() }));
    expect(refused.code).toBe("invalid_api_key");
    core.refuseNewCalls();
    expect((await failure(open())).code).toBe("server_shutting_down");
  });

  it("a request that validation rejects is charged one request and no usage (state RL-14)", async () => {
    const { core, open, requestsCharged, settlements } = await createLimitedHarness();
    const error = await failure(core.createChatCompletion(chat({ model: "unknown" }), (await open()).ctx));
    expect([error.code, error.param]).toEqual(["model_not_found", "model"]);
    expect(await requestsCharged()).toBe(1);
    expect(settlements).toHaveLength(0);
  });
});

describe("an overloaded model", () => {
  /** A model with one slot and no queue, whose slot is in use. */
  async function overloaded(fallbacks: Readonly<Record<string, HandEngine>> = {}) {
    const engine = new HandEngine();
    const harness = await createCoreHarness({ engines: [engine], deployment: { slots: 1, queueMax: 0 }, fallbacks });
    const early = (await harness.open()).ctx;
    const running = harness.core.createChatCompletion(chat(), (await harness.open()).ctx);
    const run = await engine.run();
    return { ...harness, early, running, run };
  }

  it("rejects a request before it is admitted: nothing is charged and no event is caused (REL-26)", async () => {
    const { core, early, running, run, settlements } = await overloaded();
    const error = await failure(core.createChatCompletion(chat(), early));
    expect(error.code).toBe("server_is_overloaded");
    expect(error.retryAfterMs).toBeGreaterThanOrEqual(1_000);
    run.answer("Hello.");
    await running;
    expect(settlements).toMatchObject([{ why: "completed" }]);
  });

  it("rejects a call before its body is read if all models of the caller are overloaded and the call needs a slot (REL-26)", async () => {
    const { open, running, run } = await overloaded();
    expect(await failure(open())).toMatchObject({ code: "server_is_overloaded" });
    for (const operation of ["list_models", "count_tokens"] as const) {
      (await open(operation)).ctx.close();
    }
    run.answer("Hello.");
    await running;
    (await open()).ctx.close();
  });

  it("accepts a call as long as one of the caller's models, or a fallback, may answer (REL-26)", async () => {
    const other = new HandEngine();
    const { open, core, running, run } = await overloaded({ other });
    const answering = core.createChatCompletion(chat(), (await open()).ctx);
    (await other.run()).answer("From the fallback.");
    expect((await answering).head.fallbackModel).toBe("other");
    run.answer("Hello.");
    await running;
  });
});
