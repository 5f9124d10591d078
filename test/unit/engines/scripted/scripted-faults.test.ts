import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import type { ScriptedFailureCode } from "../../../../src/engines/scripted/scripted-options.js";
import { answerOf, asks, into, load, neverAborted, run } from "./run-model.js";

describe("scripted model: failures", () => {
  const codes: readonly [ScriptedFailureCode, string][] = [
    ["internal_error", "internal"],
    ["upstream_error", "upstream_error"],
    ["server_is_overloaded", "overloaded"],
    ["upstream_timeout", "timeout"],
    ["context_length_exceeded", "context_overflow"],
  ];
  it.each(codes)("are reported as %s before the first token", async (code, inside) => {
    const model = await load({ text: "a b", fail: { code } });
    await expect(run(model, asks("Hi"))).rejects.toMatchObject({ code: inside, usage: { outTokens: 0 } });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("occur after exactly the configured number of tokens of all choices, for text and for calls", async () => {
    const model = await load({ text: "a b c d", fail: { after_tokens: 3, code: "upstream_error" } });
    for (const deltas of ["each", "joined"] as const) {
      const seen: GenEvent[] = [];
      const reading = model.generate(asks("Hi", { n: 2, deltas }), neverAborted, into(seen));
      await expect(reading).rejects.toMatchObject({ code: "upstream_error", usage: { promptTokens: 1, outTokens: 3 } });
      const words = `${answerOf(seen, 0).text}${answerOf(seen, 1).text}`.replaceAll(" ", "");
      expect(words).toHaveLength(3);
      expect(seen.some((event) => event.type === "finish")).toBe(false);
    }
  });

  it("occur if the answer has exactly the configured number of tokens, but not if it has fewer", async () => {
    const model = await load({ text: "a b", fail: { after_tokens: 2, code: "internal_error" } });
    const seen: GenEvent[] = [];
    const reading = model.generate(asks("Hi"), neverAborted, into(seen));
    await expect(reading).rejects.toMatchObject({ code: "internal" });
    expect(seen.map(({ type }) => type)).toEqual(["accepted", "text", "text"]);
    expect(answerOf(await run(model, asks("Hi", { maxTokens: 1 }))).reason).toBe("length");
  });

  it("occur only as often as configured", async () => {
    const model = await load({ text: "a", fail: { after_tokens: 0, code: "server_is_overloaded", times: 2 } });
    await expect(run(model, asks("Hi"))).rejects.toMatchObject({ code: "overloaded" });
    await expect(run(model, asks("Hi"))).rejects.toMatchObject({ code: "overloaded" });
    expect(answerOf(await run(model, asks("Hi"))).text).toBe("a");
  });

  it("a configured hang lasts until the abort, which reports the usage including held-back text", async () => {
    const model = await load({ text: "one two three", hang_after_tokens: 2 });
    const abort = new AbortController();
    const seen: GenEvent[] = [];
    const reading = model.generate(asks("Hi", { stop: [" two four"] }), abort.signal, into(seen));
    await expect.poll(() => model.stats().producedTokens).toBe(2);
    expect(answerOf(seen).text).toBe("one");
    abort.abort(new Error("left"));
    await expect(reading).rejects.toMatchObject({ code: "aborted", usage: { promptTokens: 1, outTokens: 2 } });
    expect(model.stats().slotsBusy).toBe(0);
  });

  it("the configured delays apply before the first token and before every later one", async () => {
    const waits: number[] = [];
    const clock = {
      now: () => 0,
      monotonic: () => 0,
      pending: 0,
      after: (ms: number, done: () => void) => {
        waits.push(ms);
        queueMicrotask(done);
        return () => {};
      },
    };
    const model = await load({ text: "a b c", first_token_delay_ms: 50, token_delay_ms: 7 }, clock);
    await run(model, asks("Hi"));
    expect(waits).toEqual([50, 7, 7]);
    await run(await load({ text: "a b c" }, clock), asks("Hi"));
    expect(waits).toEqual([50, 7, 7]);
  });

  it("the event loop runs other work while tokens are produced without a pause", async () => {
    const model = await load({ text: "a", tokens: 2_000 });
    const abort = new AbortController();
    setImmediate(() => abort.abort());
    await expect(run(model, asks("Hi"), abort.signal)).rejects.toMatchObject({ code: "aborted" });
    expect(model.stats().producedTokens).toBeLessThan(200);
  });

  it("no listener is left on the signal", async () => {
    const model = await load({ text: "a b", token_delay_ms: 1 });
    const abort = new AbortController();
    let listeners = 0;
    const { signal } = abort;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = ((...args: Parameters<typeof add>) => {
      listeners++;
      add(...args);
    }) as typeof signal.addEventListener;
    signal.removeEventListener = ((...args: Parameters<typeof remove>) => {
      listeners--;
      remove(...args);
    }) as typeof signal.removeEventListener;
    await run(model, asks("Hi"), signal);
    expect(listeners).toBe(0);
  });
});
