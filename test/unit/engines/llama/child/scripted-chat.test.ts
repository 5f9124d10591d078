import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeScriptedGguf } from "../../../../support/gguf/scripted-gguf.js";
import { chat, EngineChild, modelPath, startMs } from "./engine-child.js";

const said = "The quick brown fox jumps over a lazy dog. 日本 🙂 done!";
const words = 12;
const path = modelPath("scripted");
let child: EngineChild;

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeScriptedGguf(path, { text: said, contextLength: 256 });
  child = await EngineChild.load({ path, kind: "chat", contextLength: 512 });
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

describe("an answer", () => {
  it("is the exact text of the model, in whole code points, one event per token", async () => {
    const { text, events, outTokens, reason } = await child.generate({ input: chat("Hi") }).answer();
    expect(text).toBe(said);
    expect({ outTokens, reason }).toEqual({ outTokens: words, reason: "stop" });
    const texts = events.flatMap((event) => (event.type === "text" ? [event.outTokens] : []));
    expect(texts).toEqual(Array.from({ length: words }, (_, i) => i + 1));
    expect(events.map(({ type }) => type).filter((type) => type !== "text")).toEqual(["accepted", "finish", "usage"]);
  });

  it("has the same number of prompt tokens as counted before", async () => {
    const input = chat("How many tokens?");
    const { promptTokens, events } = await child.generate({ input }).answer();
    expect(await child.count(input)).toBe(promptTokens);
    expect(events[0]).toMatchObject({ type: "accepted", promptTokens });
  });

  it("consists of the echoed prompt only if max_tokens is 0 (CMPL-8)", async () => {
    const { events } = await child
      .generate({ input: { type: "text", text: "日本 🙂" }, echo: true, maxTokens: 0 })
      .answer();
    expect(events).toMatchObject([
      { type: "accepted" },
      { type: "text", text: "日本 🙂", outTokens: 0 },
      { type: "finish", reason: "length", outTokens: 0 },
      { type: "usage", outTokens: 0 },
    ]);
  });

  it("ends with reason length at exactly the token limit, and at the end of the context (CHAT-6)", async () => {
    const short = await child.generate({ maxTokens: 5 }).answer();
    expect(short).toMatchObject({ text: "The quick brown fox jumps", outTokens: 5, reason: "length" });
    const prompt = Array.from({ length: 250 }, () => 32);
    const full = await child.generate({ input: { type: "tokens", tokens: prompt } }).answer();
    expect(full).toMatchObject({ promptTokens: 250, outTokens: 6, reason: "length" });
  });

  it("begins with an echoed prompt, which does not count as output (CMPL-8)", async () => {
    const { text, outTokens } = await child.generate({ echo: true, input: { type: "text", text: "Once" } }).answer();
    expect({ text, outTokens }).toEqual({ text: `Once${said}`, outTokens: words });
  });

  it("has the same text in fewer events when it is not streamed (STRM-18)", async () => {
    const { text, events, logprobs } = await child.generate({ deltas: "joined", logprobs: 0 }).answer();
    expect(text).toBe(said);
    expect(events.filter(({ type }) => type === "text")).toHaveLength(1);
    expect(logprobs).toHaveLength(words);
  });

  it("is produced without writing to the standard output", () => {
    expect(child.stdout).toBe("");
  });
});

describe("a stop sequence", () => {
  it("is not in the text, which ends before it, but its tokens count (CHAT-8)", async () => {
    const { text, reason, outTokens } = await child.generate({ stop: ["x jum"] }).answer();
    expect({ text, reason, outTokens }).toEqual({ text: "The quick brown fo", reason: "stop", outTokens: 5 });
  });

  it("does not remove text that only begins like it (CHAT-8)", async () => {
    expect((await child.generate({ stop: ["done!!"] }).answer()).text).toBe(said);
  });
});

describe("log probabilities", () => {
  it("are emitted with the text of their tokens, one finite entry for each token (STRM-16, RESP-9)", async () => {
    const { events, logprobs } = await child.generate({ logprobs: 3 }).answer();
    for (const event of events) {
      if (event.type === "text") expect(event.logprobs?.map(({ token }) => token)).toEqual([event.text]);
    }
    expect(logprobs.map(({ token }) => token).join("")).toBe(said);
    for (const { logprob, top } of logprobs) {
      expect([logprob, ...top.map((other) => other.logprob)].every(Number.isFinite)).toBe(true);
      expect(top.length).toBeLessThanOrEqual(3);
    }
  });

  it("are finite for an unlikely prompt and near 0 for a likely one (E-7)", async () => {
    const scored = async (text: string) => {
      const asked = { input: { type: "text", text }, echo: true, logprobs: 1, maxTokens: 0 } as const;
      return (await child.generate(asked).answer()).logprobs;
    };
    const likely = await scored("The quick brown fox");
    expect(likely.map(({ token }) => token)).toEqual(["The", " quick", " brown", " fox"]);
    for (const { logprob } of likely.slice(1)) expect(logprob).toBeCloseTo(0, 3);
    const unlikely = await scored("The fox quick brown");
    // The other tokens of the vocabulary are all equally unlikely, e^-40 and less.
    const [, second, third] = unlikely;
    expect(second?.logprob).toBeLessThan(-40);
    expect(third?.logprob).toBeCloseTo(second?.logprob ?? 0, 3);
    expect(unlikely[1]?.top).toEqual([{ token: " quick", logprob: expect.closeTo(0, 3) }]);
    expect(unlikely.slice(1).every(({ logprob }) => logprob > -9999)).toBe(true);
  });

  it("of held-back text are emitted with the text; those of a stop sequence are never emitted (STRM-16)", async () => {
    const held = await child.generate({ logprobs: 0, stop: ["jumps over b"] }).answer();
    expect(held.logprobs).toHaveLength(words);
    const stopped = await child.generate({ logprobs: 0, stop: ["jumps over a"] }).answer();
    expect(stopped.logprobs.map(({ token }) => token)).toEqual(["The", " quick", " brown", " fox"]);
  });
});

describe("an unusual request", () => {
  it("fails with the context length if the prompt alone is longer than the context (ERR-26)", async () => {
    const tokens = Array.from({ length: 257 }, () => 32);
    const error = await child.generate({ input: { type: "tokens", tokens } }).error();
    expect(error).toMatchObject({ code: "context_overflow", param: "prompt" });
    expect(error.message).toContain("maximum context length is 256 tokens");
  });

  it("fails if it has a bias for a token that is not in the vocabulary (CHAT-11)", async () => {
    const { vocabSize } = child.facts;
    const error = await child.generate({ logitBias: new Map([[vocabSize, 1]]) }).error();
    expect(error).toMatchObject({ code: "bad_input", param: "logit_bias" });
  });

  it("fails if its prompt has tokens that are not in the vocabulary", async () => {
    const error = await child.generate({ input: { type: "tokens", tokens: [1, 4_000_000_000] } }).error();
    expect(error).toMatchObject({ code: "bad_input", param: "prompt" });
  });

  it("fails if it requests embeddings of a chat model", async () => {
    expect(await child.embed(["a"]).error()).toMatchObject({ code: "unsupported" });
  });

  it("with an empty prompt is answered from the token that begins a text", async () => {
    const { promptTokens, text } = await child.generate({ input: { type: "text", text: "" } }).answer();
    expect({ promptTokens, text }).toEqual({ promptTokens: 1, text: said });
  });
});

describe("the prefix of an earlier prompt", () => {
  it("is reused for the same account only (SEC-23)", async () => {
    const cacheKey = "account-a";
    const first = await child.generate({ input: chat("One question"), cacheKey }).answer();
    expect(first.cachedTokens).toBe(0);
    const next = chat("One question", said, "And another one");
    const second = await child.generate({ input: next, cacheKey }).answer();
    expect(second.cachedTokens).toBeGreaterThanOrEqual(first.promptTokens);
    expect(second.text).toBe(said);
    for (const other of ["account-b", "account-c", "account-d"]) {
      expect((await child.generate({ input: next, cacheKey: other }).answer()).cachedTokens).toBe(0);
    }
  });

  it("leaves one token to evaluate if the prompt is the same", async () => {
    const cacheKey = "account-e";
    const { promptTokens } = await child.generate({ cacheKey }).answer();
    const again = await child.generate({ cacheKey }).answer();
    expect(again).toMatchObject({ text: said, cachedTokens: promptTokens - 1 });
  });
});
