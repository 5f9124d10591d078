import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { answerOf, asks, load, run } from "./run-model.js";

describe("scripted model: text", () => {
  it("is streamed token by token, and the tokens of prompt and answer are counted", async () => {
    const events = await run(await load({ text: "Hello there, friend." }), asks("Hi  you"));
    expect(events).toEqual([
      { type: "accepted", promptTokens: 2, cachedTokens: 0 },
      { type: "text", choice: 0, text: "Hello", outTokens: 1 },
      { type: "text", choice: 0, text: " there,", outTokens: 2 },
      { type: "text", choice: 0, text: " friend.", outTokens: 3 },
      { type: "finish", choice: 0, reason: "stop", outTokens: 3 },
      { type: "usage", promptTokens: 2, outTokens: 3, cachedTokens: 0, reasoningTokens: 0 },
    ]);
  });

  it("is one event if the answer is not streamed", async () => {
    const events = await run(await load({ text: "a b c", tokens: 200 }), asks("Hi", { deltas: "joined" }));
    expect(events.map((event) => event.type)).toEqual(["accepted", "text", "finish", "usage"]);
    expect(answerOf(events)).toMatchObject({ reason: "stop", usage: [1, 200] });
  });

  it("is the last user message or the prompt if none is configured", async () => {
    const model = await load({});
    expect(answerOf(await run(model, asks("Say this"))).text).toBe("Say this");
    expect(answerOf(await run(model, asks("", { input: { prompt: "Once upon" } }))).text).toBe("Once upon");
    const messages = [
      [Role.USER, "first"],
      [Role.USER, "second"],
      [Role.ASSISTANT, "third"],
    ].map(([role, value]) =>
      create(MessageSchema, { role: role as Role, content: [{ part: { case: "text", value: String(value) } }] }),
    );
    const input = { messages, tools: [], toolChoice: { mode: "none" }, parallelToolCalls: true } as const;
    expect(answerOf(await run(model, asks("", { input })))).toMatchObject({ text: "second", usage: [3, 1] });
  });

  it("ends with stop if it is complete, even at exactly the token limit, and with length if it is cut", async () => {
    const model = await load({ text: "a b c" });
    expect(answerOf(await run(model, asks("Hi", { maxTokens: 3 })))).toMatchObject({ reason: "stop", text: "a b c" });
    expect(answerOf(await run(model, asks("Hi", { maxTokens: 2 })))).toMatchObject({ reason: "length", text: "a b" });
  });

  it("is limited to the rest of the context (CHAT-6)", async () => {
    const model = await load({ text: "x", tokens: 100, context_length: 10 });
    expect(answerOf(await run(model, asks("a b c", { maxTokens: 50 })))).toMatchObject({
      reason: "length",
      usage: [3, 7],
    });
    expect(answerOf(await run(model, asks("a b c")))).toMatchObject({ reason: "length", usage: [3, 7] });
  });

  it("is refused only if the prompt alone exceeds the context (CHAT-6, ERR-26)", async () => {
    const model = await load({ text: "x", context_length: 3 });
    expect(answerOf(await run(model, asks("a b c")))).toMatchObject({ reason: "length", usage: [3, 0] });
    await expect(run(model, asks("a b c d", { maxTokens: 9 }))).rejects.toMatchObject({
      code: "context_overflow",
      param: "messages",
      message: expect.stringMatching(/maximum context length is 3 tokens.* 4 tokens.* 9 output tokens/),
    });
  });

  it("contains no part of a stop string, but the token that completes the string counts (CHAT-8)", async () => {
    const model = await load({ text: "one two three four" });
    for (const deltas of ["each", "joined"] as const) {
      const events = await run(model, asks("Hi", { stop: ["wo th"], deltas }));
      expect(answerOf(events)).toEqual({ text: "one t", reason: "stop", calls: [], usage: [1, 3] });
      expect(events).toContainEqual({ type: "finish", choice: 0, reason: "stop", outTokens: 3, stopSequence: "wo th" });
    }
  });

  it("includes held-back text when it ends or is cut (CHAT-8)", async () => {
    const model = await load({ text: "one two three" });
    expect(answerOf(await run(model, asks("Hi", { stop: ["three!"] }))).text).toBe("one two three");
    expect(answerOf(await run(model, asks("Hi", { stop: [" two three"], maxTokens: 2 }))).text).toBe("one two");
  });

  it("is produced alternately for all choices (CHAT-3)", async () => {
    const events = await run(await load({ text: "a b" }), asks("Hi", { n: 2 }));
    const order = events.flatMap((event) => ("choice" in event ? [`${event.type} ${event.choice}`] : []));
    expect(order).toEqual(["text 0", "text 1", "text 0", "finish 0", "text 1", "finish 1"]);
    expect(answerOf(events, 1)).toMatchObject({ text: "a b", usage: [1, 4] });
  });

  it("begins with an echoed prompt, which does not count as output (CMPL-8)", async () => {
    const model = await load({ text: " done" });
    const prompted = { input: { prompt: "Well" }, echo: true } as const;
    expect(answerOf(await run(model, asks("", prompted)))).toMatchObject({ text: "Well done", usage: [1, 1] });
    expect(answerOf(await run(model, asks("", { ...prompted, maxTokens: 0 })))).toMatchObject({
      text: "Well",
      reason: "length",
      usage: [1, 0],
    });
  });

  it("the first token of an echoed prompt has no log probability (E-7, CMPL-8)", async () => {
    const model = await load({ text: " done" });
    const asked = { input: { prompt: "Well then" }, echo: true, logprobs: 1 } as const;
    for (const maxTokens of [0, 1]) {
      const events = await run(model, asks("", { ...asked, maxTokens }));
      const tokens = events.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []));
      expect(tokens.slice(0, 2)).toEqual([
        { token: "Well", logprob: Number.NaN, top: [] },
        { token: " then", logprob: -0.1, top: [{ token: " then", logprob: -0.1 }] },
      ]);
      expect(tokens).toHaveLength(2 + maxTokens);
    }
  });

  it("log probabilities are sent with their text, one per token, with the requested number of alternatives (STRM-16)", async () => {
    const model = await load({ text: "a b c" });
    for (const deltas of ["each", "joined"] as const) {
      const events = await run(model, asks("Hi", { logprobs: 2, deltas }));
      const tokens = events.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []));
      expect(tokens.map(({ token, logprob }) => [token, logprob])).toEqual([
        ["a", -0.1],
        [" b", -0.1],
        [" c", -0.1],
      ]);
      for (const { token, top } of tokens) {
        expect(top).toHaveLength(2);
        expect(top[0]).toEqual({ token, logprob: -0.1 });
        expect(top[1]?.logprob).toBeLessThan(-0.1);
      }
    }
    const without = await run(model, asks("Hi"));
    expect(without.some((event) => "logprobs" in event)).toBe(false);
  });

  it("log probabilities of a stop string are not emitted (STRM-16)", async () => {
    const events = await run(await load({ text: "a b END" }), asks("Hi", { logprobs: 0, stop: [" END"] }));
    const tokens = events.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []));
    expect(tokens.map(({ token }) => token)).toEqual(["a", " b"]);
  });

  it("ends with content_filter if this is configured", async () => {
    const model = await load({ text: "a", finish_reason: "content_filter" });
    expect(answerOf(await run(model, asks("Hi"))).reason).toBe("content_filter");
  });

  it("token ids are accepted only if this is configured, and each id counts as one token", async () => {
    const model = await load({ token_input: true });
    expect(model.caps.tokenInput).toBe(true);
    expect((await load({})).caps.tokenInput).toBe(false);
    expect(answerOf(await run(model, asks("", { input: { prompt: [7, 8, 9] } })))).toMatchObject({
      text: "7 8 9",
      usage: [3, 3],
    });
  });

  it("the model's fingerprint depends only on its options (RESP-11)", async () => {
    const [a, same, other] = await Promise.all([load({ text: "a" }), load({ text: "a" }), load({ text: "b" })]);
    expect(a.fingerprint).toBe(same.fingerprint);
    expect(a.fingerprint).not.toBe(other.fingerprint);
    expect(a.fingerprint).toMatch(/^[0-9a-f]{12}$/);
  });
});
