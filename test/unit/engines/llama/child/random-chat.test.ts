import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeRandomGguf } from "../../../../support/gguf/random-gguf.js";
import { rounds } from "../../../../support/tier.js";
import { chat, EngineChild, modelPath, startMs } from "./engine-child.js";

const path = modelPath("random");
const slots = 3;
let child: EngineChild;
/** Bans the tokens that end an answer. */
let endless: ReadonlyMap<number, number>;

vi.setConfig({ testTimeout: startMs });

beforeAll(async () => {
  await writeRandomGguf(path, { layers: 4, heads: 4 });
  child = await EngineChild.load({ path, kind: "chat", contextLength: 4096, slots });
  const { vocabSize } = child.facts;
  endless = new Map([vocabSize - 3, vocabSize - 2, vocabSize - 1].map((token) => [token, -100]));
}, startMs);

afterAll(async () => {
  await child.stop();
  await rm(path, { force: true });
});

const longPrompt = (seed: number): readonly number[] => Array.from({ length: 3500 }, (_, i) => (i * seed) % 200);

describe("sampling", () => {
  it("repeats an answer for the same seed, and gives other answers for another seed or none (CHAT-9)", async () => {
    const say = async (seed?: bigint): Promise<string> => {
      const asked = { temperature: 1, maxTokens: 20, logitBias: endless, ...(seed === undefined ? {} : { seed }) };
      return (await child.generate(asked).answer()).text;
    };
    expect(await say(7n)).toBe(await say(7n));
    expect(await say(7n)).not.toBe(await say(8n));
    expect(await say(7n)).not.toBe(await say(7n + 2n ** 40n));
    expect(await say()).not.toBe(await say());
  });

  it("keeps only the most likely token at top_p 0 (CHAT-2)", async () => {
    const greedy = await child.generate({ maxTokens: 20, logitBias: endless }).answer();
    const narrow = await child.generate({ maxTokens: 20, logitBias: endless, temperature: 2, topP: 0 }).answer();
    expect(narrow.text).toBe(greedy.text);
  });

  it("chooses the same tokens at temperature 0 with and without log probabilities", async () => {
    const asked = { maxTokens: 30, logitBias: endless, frequencyPenalty: 1 };
    const plain = await child.generate(asked).answer();
    const reported = await child.generate({ ...asked, logprobs: 5 }).answer();
    expect(reported.text).toBe(plain.text);
    expect(reported.logprobs).toHaveLength(30);
    for (const { token, top } of reported.logprobs) expect(top[0]?.token).toBe(token);
  });

  it("adds the bias to a token's logit, even for the token that ends an answer (CHAT-11)", async () => {
    const { vocabSize } = child.facts;
    const letter = 64;
    const biased = await child.generate({ temperature: 1, maxTokens: 5, logitBias: new Map([[letter, 100]]) }).answer();
    expect(new Set(biased.text)).toHaveLength(1);
    const ended = await child.generate({ temperature: 1, logitBias: new Map([[vocabSize - 1, 100]]) }).answer();
    expect(ended).toMatchObject({ text: "", outTokens: 0, reason: "stop" });
  });

  it("makes penalized tokens less likely, counted over the whole answer (CHAT-10)", async () => {
    const letter = 64;
    const asked = { maxTokens: 150, logitBias: new Map([...endless, [letter, 30]]) };
    const plain = await child.generate(asked).answer();
    expect(new Set(plain.text)).toHaveLength(1);
    const punished = await child.generate({ ...asked, frequencyPenalty: 0.25 }).answer();
    // The penalty reaches 30 only if far more than 64 tokens are counted.
    const before = /^(.)\1*/u.exec(punished.text)?.[0].length ?? 0;
    expect(before).toBeGreaterThan(64);
    expect(before).toBeLessThan(150);
  });

  it("reports the bytes of tokens that are only part of a character (RESP-9)", async () => {
    const byte = 0xe6;
    const { logprobs, text } = await child
      .generate({ maxTokens: 2, logprobs: 1, logitBias: new Map([[byte, 100]]) })
      .answer();
    expect(text).toBe("\ufffd\ufffd");
    expect(logprobs).toMatchObject([
      { token: "bytes:\\xe6", bytes: [0xe6] },
      { token: "bytes:\\xe6", bytes: [0xe6] },
    ]);
  });
});

describe("a grammar", () => {
  const schemaJson = JSON.stringify({
    type: "object",
    properties: { ok: { type: "boolean" }, kind: { enum: ["left", "right"] } },
    required: ["ok", "kind"],
    additionalProperties: false,
  });

  it("enforces the schema and ends the answer, although the model prefers other tokens (RF-3)", async () => {
    const format = { type: "json_schema", name: "answer", schemaJson, strict: true } as const;
    for (let seed = 0; seed < rounds(50); seed++) {
      const { text, reason } = await child
        .generate({ input: chat("Answer"), format, temperature: 1, seed: BigInt(seed), logprobs: 2 })
        .answer();
      expect(reason).toBe("stop");
      expect(JSON.parse(text)).toEqual({ ok: expect.any(Boolean), kind: expect.stringMatching(/^(left|right)$/) });
    }
  });

  it("enforces the length of texts even if the model prefers other bytes and control tokens (RF-3)", async () => {
    const { vocabSize } = child.facts;
    const leads = [0xc0, 0xc1, 0xe0, 0xed, 0xf0, 0xf4, 0xf5, 0xf8, 0xfc];
    const start = vocabSize - 2;
    const logitBias = new Map([...leads, ...leads.map((byte) => byte - 0x40), start].map((token) => [token, 4]));
    const schemaJson = JSON.stringify({ type: "string", minLength: 4, maxLength: 8 });
    const format = { type: "json_schema", name: "text", schemaJson, strict: true } as const;
    let strange = 0;
    for (let seed = 0; seed < rounds(300); seed++) {
      const { text, reason } = await child
        .generate({ input: chat("Write"), format, temperature: 1, seed: BigInt(seed), logitBias })
        .answer();
      const value = String(JSON.parse(text));
      if (/[^\x20-\x7e]/.test(value)) strange++;
      expect([seed, text.includes("\ufffd"), reason]).toEqual([seed, false, "stop"]);
      expect([4, 5, 6, 7, 8]).toContain([...value].length);
    }
    expect(strange).toBeGreaterThan(rounds(300) / 2);
  });

  it("keeps its texts well-formed against any bias", async () => {
    const format = {
      type: "json_schema",
      name: "text",
      schemaJson: JSON.stringify({ type: "string", maxLength: 3 }),
      strict: true,
    } as const;
    const { text } = await child
      .generate({ input: chat("Write"), format, logitBias: new Map([0xe0, 0x82].map((token) => [token, 100])) })
      .answer();
    expect(text).not.toContain("\ufffd");
    expect(String(JSON.parse(text))).toMatch(/^[\u0800-\u0fff]{3}$/);
  });

  it("does not cut code points that consist of several tokens", async () => {
    const text = "日本 🙂 é";
    const format = {
      type: "json_schema",
      name: "word",
      schemaJson: JSON.stringify({ enum: [text] }),
      strict: true,
    } as const;
    const { events, outTokens, ...answer } = await child.generate({ input: chat("Say"), format, logprobs: 0 }).answer();
    expect(answer.text).toBe(JSON.stringify(text));
    const pieces = events.flatMap((event) => (event.type === "text" ? [event.text] : []));
    expect(pieces.join("")).not.toContain("\ufffd");
    expect(outTokens).toBeGreaterThan(pieces.length);
    expect(answer.logprobs).toHaveLength(outTokens);
  });

  it("allows only a call of the function that was named (TOOL-5)", async () => {
    const parameters: object = JSON.parse(schemaJson);
    const tool = { type: "function", function: { name: "turn", parameters, strict: true } } as const;
    const input = { ...chat("Turn"), tools: [tool], toolChoice: { mode: "named", name: "turn" } } as const;
    const { events, reason } = await child.generate({ input, temperature: 1, seed: 1n }).answer();
    const calls = events.flatMap((event) => (event.type === "tool" ? [event] : []));
    expect(calls[0]).toMatchObject({ index: 0, name: "turn", id: expect.stringMatching(/^call_[A-Za-z0-9]{24}$/) });
    expect(JSON.parse(calls.map(({ argsDelta }) => argsDelta ?? "").join(""))).toMatchObject({ ok: expect.anything() });
    expect(reason).toBe("tool_calls");
  });
});

describe("concurrent calls", () => {
  it("are rejected if all slots are busy", async () => {
    const running = Array.from({ length: slots }, () => child.generate({ logitBias: endless, maxTokens: 3000 }));
    await Promise.all(running.map((run) => run.begun()));
    expect(await child.slotsBusy()).toBe(slots);
    expect(await child.generate().error()).toMatchObject({ code: "overloaded", retryable: true });
    for (const run of running) run.abort();
    for (const run of running) expect(await run.error()).toMatchObject({ code: "aborted" });
    expect(await child.slotsBusy()).toBe(0);
  });

  it("do not delay a call that has to clear its slot first", async () => {
    const streams = ["a", "b"].map((cacheKey) => child.generate({ cacheKey, logitBias: endless, maxTokens: 3900 }));
    await Promise.all(streams.map((run) => run.begun()));
    for (const cacheKey of ["c", "d", "e"]) await child.generate({ cacheKey, maxTokens: 2 }).answer();
    expect(await child.slotsBusy()).toBe(2);
    for (const run of streams) run.abort();
    for (const run of streams) await run.end;
  });

  it("continue while another call's long prompt is evaluated", async () => {
    const stream = child.generate({ cacheKey: "stream", logitBias: endless, maxTokens: 3900 });
    await stream.begun();
    const before = stream.events.length;
    const input = { type: "tokens", tokens: longPrompt(7).slice(0, 2000) } as const;
    await child.generate({ cacheKey: "long", input, maxTokens: 1 }).answer();
    expect(stream.events.length - before).toBeGreaterThanOrEqual(5);
    stream.abort();
    expect((await stream.error()).code).toBe("aborted");
  });

  it("send the events of one batch in one message", async () => {
    const seen = child.messages.length;
    const asked = { logitBias: endless, maxTokens: 40 };
    const both = await Promise.all([child.generate(asked).answer(), child.generate(asked).answer()]);
    const texts = both.flatMap(({ events }) => events.filter(({ type }) => type === "text")).length;
    const sent = child.messages.slice(seen).filter(({ type }) => type === "events").length;
    expect(sent).toBeLessThan(0.75 * texts);
  });
});

describe("an abort", () => {
  it("during the evaluation of a long prompt frees the slot, and the next answer is correct", async () => {
    const fresh = await child.generate({ cacheKey: "fresh", maxTokens: 10, logitBias: endless }).answer();
    for (let i = 0; i < rounds(30); i++) {
      const input = { type: "tokens", tokens: longPrompt(i + 11) } as const;
      const run = child.generate({ cacheKey: "aborted", input, maxTokens: 500, logitBias: endless });
      await child.hear((message) => message.type === "events" && run.events.length > 0);
      run.abort();
      const error = await run.error();
      expect(error).toMatchObject({ code: "aborted", usage: { promptTokens: 3500, outTokens: 0 } });
      expect(await child.slotsBusy()).toBe(0);
    }
    const next = await child.generate({ cacheKey: "aborted", maxTokens: 10, logitBias: endless }).answer();
    expect(next.text).toBe(fresh.text);
  });

  it("during an answer reports the produced tokens", async () => {
    const run = child.generate({ logitBias: endless, maxTokens: 3000 });
    await run.begun();
    run.abort();
    const { code, usage } = await run.error();
    expect(code).toBe("aborted");
    const shown = Math.max(...run.events.map((event) => (event.type === "text" ? event.outTokens : 0)));
    expect(usage?.outTokens).toBeGreaterThanOrEqual(shown);
    expect(usage?.outTokens).toBeLessThan(3000);
    expect(await child.slotsBusy()).toBe(0);
  });
});

describe("log probabilities of a prompt", () => {
  const words = [104, 105, 32, 110, 111, 119];
  const input = { type: "tokens", tokens: words } as const;

  it("cover the whole vocabulary: their probabilities add up to 1 at each position (E-7)", async () => {
    const { vocabSize } = child.facts;
    const { logprobs } = await child.generate({ input, echo: true, logprobs: vocabSize, maxTokens: 0 }).answer();
    expect(logprobs).toHaveLength(words.length);
    for (const { token, logprob, top } of logprobs.slice(1)) {
      expect(top.reduce((sum, other) => sum + Math.exp(other.logprob), 0)).toBeCloseTo(1, 3);
      expect(top.find((other) => other.token === token)?.logprob).toBeCloseTo(logprob, 3);
      expect(top.map((other) => other.logprob)).toEqual(top.map((other) => other.logprob).sort((a, b) => b - a));
    }
  });

  it("do not depend on the number of alternatives, for likely and unlikely tokens (E-7)", async () => {
    const { vocabSize } = child.facts;
    const scored = (logprobs: number) => child.generate({ input, echo: true, logprobs, maxTokens: 0 }).answer();
    const all = (await scored(vocabSize)).logprobs.slice(1);
    for (const alternatives of [0, 1, 5]) {
      const some = (await scored(alternatives)).logprobs.slice(1);
      for (const [i, { logprob, top }] of some.entries()) {
        expect(logprob).toBeCloseTo(all[i]?.logprob ?? 0, 3);
        expect(top.map(({ token }) => token)).toEqual(all[i]?.top.slice(0, alternatives).map(({ token }) => token));
      }
    }
  });

  it("have the same differences between tokens as log probabilities of generated tokens (E-7)", async () => {
    const { logprobs } = await child.generate({ input, echo: true, logprobs: 20, maxTokens: 0 }).answer();
    const before = { type: "tokens", tokens: words.slice(0, -1) } as const;
    const asked = { input: before, logprobs: 20, maxTokens: 1, temperature: 1 };
    const [generated] = (await child.generate(asked).answer()).logprobs;
    const ofPrompt = logprobs.at(-1)?.top ?? [];
    expect(ofPrompt[0]?.token).toBe(generated?.top[0]?.token);
    const steps = (top: readonly { readonly logprob: number }[]) =>
      top.map(({ logprob }) => logprob - (top[0]?.logprob ?? 0));
    for (const [i, step] of steps(ofPrompt).entries()) expect(step).toBeCloseTo(steps(generated?.top ?? [])[i] ?? 9, 3);
  });

  it("are computed without cached tokens, and the evaluated tokens are cached for later calls (E-7, SEC-23)", async () => {
    const cacheKey = "scores";
    const scored = () => child.generate({ input, echo: true, logprobs: 1, maxTokens: 2, cacheKey }).answer();
    const first = await scored();
    const second = await scored();
    expect([first.cachedTokens, second.cachedTokens]).toEqual([0, 0]);
    expect(second.logprobs.map(({ token }) => token)).toEqual(first.logprobs.map(({ token }) => token));
    expect(second.logprobs).toHaveLength(words.length + 2);
    for (const [i, { logprob }] of second.logprobs.slice(1).entries()) {
      expect(logprob).toBeCloseTo(first.logprobs[i + 1]?.logprob ?? 0, 3);
    }
    const plain = await child.generate({ input, maxTokens: 2, cacheKey }).answer();
    expect(plain.cachedTokens).toBe(words.length - 1);
  });

  it("are followed by the log probability of the token that ends the answer (E-7)", async () => {
    const { vocabSize } = child.facts;
    const ends = new Map([[vocabSize - 1, 100]]);
    const asked = { input, echo: true, logprobs: 1, maxTokens: 1 };
    const { logprobs, outTokens, text, reason } = await child.generate({ ...asked, logitBias: ends }).answer();
    expect({ outTokens, text, reason }).toEqual({ outTokens: 0, text: "hi now", reason: "stop" });
    expect(logprobs).toHaveLength(words.length + 1);
    expect(logprobs.at(-1)).toMatchObject({ token: "<|im_end|>", bytes: [], logprob: expect.closeTo(0, 3) });
  });

  it("are computed in steps between which another stream continues, until an abort (E-7)", async () => {
    const stream = child.generate({ cacheKey: "stream", logitBias: endless, maxTokens: 3900 });
    await stream.begun();
    const before = stream.events.length;
    const long = { type: "tokens", tokens: longPrompt(7).slice(0, 400) } as const;
    const { logprobs } = await child.generate({ input: long, echo: true, logprobs: 1, maxTokens: 0 }).answer();
    expect(logprobs).toHaveLength(400);
    expect(stream.events.length - before).toBeGreaterThanOrEqual(5);
    const aborted = child.generate({
      input: { type: "tokens", tokens: longPrompt(7) },
      echo: true,
      logprobs: 1,
      maxTokens: 0,
    });
    await aborted.begun();
    aborted.abort();
    expect(await aborted.error()).toMatchObject({ code: "aborted", usage: { promptTokens: 3500, outTokens: 0 } });
    stream.abort();
    await stream.end;
    expect(await child.slotsBusy()).toBe(0);
  });
});
