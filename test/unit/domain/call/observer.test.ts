import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ChatCompletionParamsSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import type { CallEnd, Observer } from "../../../../src/domain/call/observer.js";
import { type LimitKind, unlimited } from "../../../../src/domain/call/rate-limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { blindObserver, createCoreHarness } from "../../../support/core-harness.js";
import { eventually } from "../../../support/eventually.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { fieldsOf } from "../../../support/silent-log.js";

const chat = (fields: object = {}) =>
  create(ChatCompletionParamsSchema, {
    model: "m",
    messages: [{ role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] }],
    ...fields,
  });

/** A core and all events of its observer. */
async function observed(options: Partial<Parameters<typeof createCoreHarness>[0]> = {}) {
  const ends: CallEnd[] = [];
  const hits: LimitKind[] = [];
  const losses: number[] = [];
  const observer: Observer = {
    callEnded: (end) => ends.push(end),
    limitHit: (which) => hits.push(which),
    usageLost: () => losses.push(1),
    promptEstimated: () => {},
  };
  const engine = new HandEngine();
  const harness = await createCoreHarness({ engines: [engine], observer, ...options });
  return { ...harness, engine, ends, hits, losses };
}

describe("events of an observer", () => {
  it("report a stream's queue and engine times by the clock, once", async () => {
    const { core, open, clock, engine, ends } = await observed();
    const { ctx } = await open();
    clock.advance(10);
    const answering = core.streamChatCompletion(chat(), ctx);
    const run = await engine.run();
    clock.advance(20);
    run.say(
      { type: "accepted", promptTokens: 3, cachedTokens: 0 },
      { type: "text", choice: 0, text: "a", outTokens: 1 },
    );
    const items = (await answering).items[Symbol.asyncIterator]();
    await items.next();
    clock.advance(40);
    run.say(
      { type: "text", choice: 0, text: "b", outTokens: 5 },
      { type: "finish", choice: 0, reason: "stop", outTokens: 5 },
      { type: "usage", promptTokens: 3, outTokens: 5, cachedTokens: 0, reasoningTokens: 0 },
    );
    run.end();
    while ((await items.next()).done !== true);
    expect(ends).toEqual([]);
    clock.advance(5);
    ctx.close();
    ctx.close();
    expect(ends).toMatchObject([
      { operation: "create_chat_completion", model: "m", why: "completed", code: "ok", stage: "delivering" },
    ]);
    const [end] = ends;
    expect(end).toMatchObject({ durationMs: 75, clientLeft: false, usage: { promptTokens: 3, completionTokens: 5 } });
    expect(end?.times.engineBeganMs).toBe(10);
    expect(end?.times.engineMs).toBe(60);
    expect(end?.times.firstTokenMs).toBe(30);
    expect(end?.times.tokenGapMs(5)).toBe(10);
    expect(end?.details).toBeNull();
  });

  it("report the stage of a call at which its client disconnected", async () => {
    const { core, open, engine, ends } = await observed();
    const { ctx, end } = await open();
    const answering = core.createChatCompletion(chat(), ctx);
    await engine.run();
    end("client_left");
    await expect(answering).rejects.toBeInstanceOf(ServiceError);
    ctx.close();
    await eventually(() => ends.length > 0, "the end of the call");
    expect(ends).toMatchObject([
      { why: "client_left", code: "client_closed_request", stage: "running", clientLeft: true },
    ]);
  });

  it("report the error of a rejected call", async () => {
    const { core, ends } = await observed();
    const caller = {
      authorization: "Bearer sk-uis-wrong",
      deadlineAtMs: Number.POSITIVE_INFINITY,
      abort: new AbortSource(),
      transport: "grpc",
      address: "127.0.0.1",
    } as const;
    await expect(core.open("list_models", caller)).rejects.toMatchObject({ code: "invalid_api_key" });
    expect(ends).toMatchObject([
      { operation: "list_models", transport: "grpc", code: "invalid_api_key", stage: "opening", usage: null },
    ]);
  });

  it("report each rejection by a limit, by the ledger or by the cache in front of it", async () => {
    const account = { ...unlimited, requestsPerMinute: 1 };
    const rateLimits = { key: unlimited, account, models: new Map() };
    const { core, open, engine, hits, ends } = await observed({ rateLimits });
    const { ctx } = await open();
    const answering = core.createChatCompletion(chat(), ctx);
    (await engine.run()).answer("Hello.");
    await answering;
    const second = await open();
    await expect(core.createChatCompletion(chat(), second.ctx)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    expect(hits).toEqual(["requests"]);
    await expect(open()).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    expect(hits).toEqual(["requests", "requests"]);
    second.ctx.close();
    expect(ends.map(({ code }) => code)).toEqual(["rate_limit_exceeded", "rate_limit_exceeded"]);
  });

  it("report a settlement that the store does not accept", async () => {
    const { core, open, engine, losses, ledger } = await observed();
    ledger.settle = () => {
      throw new ServiceError("storage_unavailable", "The spool is full.");
    };
    const { ctx } = await open();
    const answering = core.createChatCompletion(chat(), ctx);
    (await engine.run()).answer("Hello.");
    await expect(answering).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(losses).toEqual([1]);
  });
});

describe("the report of a call to a tracer", () => {
  it("contains the request's options and finish reasons, and its trace id is logged", async () => {
    const lines: object[] = [];
    const traced: CallEnd[] = [];
    const { core, open, engine } = await observed({
      observer: blindObserver,
      tracer: {
        trace(end) {
          traced.push(end);
          return "0af7651916cd43dd8448eb211c80319c";
        },
      },
      log: { debug: () => {}, info: (fields) => lines.push(fieldsOf(fields)), warn: () => {}, error: () => {} },
    });
    const { ctx } = await open();
    const answering = core.createChatCompletion(chat({ temperature: 0.5, stop: ["END"] }), ctx);
    (await engine.run()).answer("Hello.");
    await answering;
    ctx.close();
    const [end] = traced;
    expect(end?.details?.options).toMatchObject({ temperature: 0.5, stop: ["END"] });
    expect(end?.details?.finishReasons).toEqual(["stop"]);
    expect(end?.details?.responseId).toMatch(/^chatcmpl-/);
    expect(end?.details?.isStream).toBe(false);
    expect(lines).toMatchObject([{ trace_id: "0af7651916cd43dd8448eb211c80319c" }]);
  });
});
