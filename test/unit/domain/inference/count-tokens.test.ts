import { describe, expect, it } from "vitest";
import { Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { chat, failure } from "../service/limited-harness.js";

/** A core whose engine counts with `count`. */
async function counting(count: HandEngine["countTokens"], concurrency = 1) {
  const engine = new HandEngine();
  engine.countTokens = count;
  const account = { ...unlimited, tokensPerMinute: 10, concurrency };
  const rateLimits = { key: unlimited, account, models: new Map() };
  return { ...(await createCoreHarness({ engines: [engine], rateLimits })), engine };
}

describe("a count of tokens", () => {
  it("is made by the engine, without a generation, and settles no tokens (ANT-6)", async () => {
    const { core, open, engine, settlements, live, clock } = await counting(async () => 1_000);
    const { ctx } = await open("count_tokens");
    const { head, body } = await core.countTokens(chat(), ctx);
    expect(body).toMatchObject({ promptTokens: 1_000, estimated: false });
    expect(head).toMatchObject({ attempts: 0, deployment: "" });
    expect(head.limits?.tokens?.remaining).toBe(10);
    expect(settlements).toMatchObject([
      { operation: "count_tokens", why: "completed", promptTokens: 0, completionTokens: 0, costNano: 0 },
    ]);
    expect(engine.runs).toEqual([]);
    ctx.close();
    expect([live.size, clock.pending]).toEqual([0, 0]);
  });

  it("is an estimate if the engine cannot count (ANT-6)", async () => {
    const { core, open } = await counting(async () => null);
    const count = async (text: string) => {
      const { ctx } = await open("count_tokens");
      const messages = [{ role: Role.USER, content: [{ part: { case: "text", value: text } }] }];
      const { body } = await core.countTokens(chat({ messages }), ctx);
      ctx.close();
      return body;
    };
    const short = await count("a");
    const long = await count("a".repeat(3_000));
    expect([short.estimated, long.estimated]).toEqual([true, true]);
    expect(long.promptTokens).toBeGreaterThan(short.promptTokens + 500);
  });

  it("is rejected for an invalid chat, for an unknown model and over a limit (ANT-6)", async () => {
    let answer = (_tokens: number): void => {};
    const counted = new Promise<number>((resolve) => {
      answer = resolve;
    });
    const { core, open } = await counting(() => counted);
    const { ctx } = await open("count_tokens");
    expect((await failure(core.countTokens(chat({ messages: [] }), ctx))).code).toBe("empty_array");
    expect((await failure(core.countTokens(chat({ model: "x" }), (await open("count_tokens")).ctx))).code).toBe(
      "model_not_found",
    );
    const first = core.countTokens(chat(), (await open("count_tokens")).ctx);
    const second = await failure(core.countTokens(chat(), (await open("count_tokens")).ctx));
    expect(second.code).toBe("rate_limit_exceeded");
    answer(5);
    expect((await first).body.promptTokens).toBe(5);
  });

  it("waits while eight other prompts of its account are being counted (E-3)", async () => {
    const answers: ((tokens: number) => void)[] = [];
    const { core, open } = await counting(() => new Promise((resolve) => void answers.push(resolve)), 100);
    const calls = await Promise.all(Array.from({ length: 9 }, () => open("count_tokens")));
    const counts = calls.map(({ ctx }) => core.countTokens(chat(), ctx));
    await new Promise((resolve) => setImmediate(resolve));
    expect(answers).toHaveLength(8);
    answers[0]?.(3);
    await new Promise((resolve) => setImmediate(resolve));
    expect(answers).toHaveLength(9);
    for (const answer of answers) answer(3);
    expect((await Promise.all(counts)).map(({ body }) => body.promptTokens)).toEqual(Array(9).fill(3));
  });

  it("ends when its call is aborted, even if the engine ignores the abort (ANT-6)", async () => {
    let begin = (): void => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const { core, open, settlements } = await counting(() => {
      begin();
      return new Promise(() => {});
    });
    const { ctx, end } = await open("count_tokens");
    const pending = failure(core.countTokens(chat(), ctx));
    await begun;
    end("client_left");
    expect((await pending).code).toBe("client_closed_request");
    expect(settlements).toMatchObject([{ why: "client_left", promptTokens: 0 }]);
  });
});
