import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { type Api, createApi, expectError, type Reply } from "../openai/api.js";
import { type ChatAnswer, streamedAnswer, streaming, type TokenEntry, wholeAnswer } from "./chat-answer.js";

const script = "Say it plainly: 日本 is far 🙂 away.";
const scriptTokens = 8;
/** The token of a single byte has the byte as its id. */
const letterA = 97;
const half = 0xe6;

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  service = await startLlamaService([
    { id: "m", write: (path) => writeRandomGguf(path) },
    { id: "scripted", write: (path) => writeScriptedGguf(path, { text: script }) },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

const say = async (fields: object): Promise<ChatAnswer> => wholeAnswer(await api.chat({ model: "m", ...fields }));

const contentsOf = ({ json }: Reply): readonly string[] =>
  json.choices.map(({ message }: { message: { content: string } }) => message.content);

describe("sampling", () => {
  it("considers the most likely tokens up to top_p, and only the first at 0 (CHAT-2)", async () => {
    const asked = { max_tokens: 20, seed: 1 };
    const greedy = await say({ ...asked, temperature: 0 });
    const wide = await say({ ...asked, temperature: 2, top_p: 1 });
    expect((await say({ ...asked, temperature: 2, top_p: 0 })).content).toBe(greedy.content);
    expect(wide.content).not.toBe(greedy.content);
    for (const top_p of [-0.1, 1.1]) {
      expect((await api.chat({ model: "m", top_p })).json.error.param).toBe("top_p");
    }
  });

  it("repeats an answer for a seed, streamed or not, and differs for another seed (CHAT-9)", async () => {
    const asked = { max_tokens: 20, seed: 2 ** 40 };
    const first = await say(asked);
    expect((await say(asked)).content).toBe(first.content);
    const streamed = streamedAnswer(await api.chat({ model: "m", ...asked, ...streaming }));
    expect(streamed.content).toBe(first.content);
    expect((await say({ ...asked, seed: 2 ** 40 + 1 })).content).not.toBe(first.content);
  });

  it("generates n different choices for one seed, reproducibly, and counts the prompt once (CHAT-3, CHAT-9)", async () => {
    const asked = { model: "m", max_tokens: 12, seed: 5 };
    const one = await api.chat(asked);
    const three = await api.chat({ ...asked, n: 3 });
    expect(new Set(contentsOf(three)).size).toBe(3);
    expect(contentsOf(three)[0]).toBe(contentsOf(one)[0]);
    expect(contentsOf(await api.chat({ ...asked, n: 3 }))).toEqual(contentsOf(three));
    const { prompt_tokens, completion_tokens, total_tokens } = three.json.usage;
    expect(prompt_tokens).toBe(one.json.usage.prompt_tokens);
    expect(completion_tokens).toBeLessThanOrEqual(36);
    expect(total_tokens).toBe(prompt_tokens + completion_tokens);
  });

  it("penalizes or favours tokens that occurred before, with either penalty (CHAT-10)", async () => {
    const only = { max_tokens: 40, temperature: 0, logit_bias: { [letterA]: 30 } };
    const runOf = ({ content }: ChatAnswer): number => /^a*/.exec(content)?.[0].length ?? 0;
    expect(runOf(await say(only))).toBe(40);
    expect(runOf(await say({ ...only, frequency_penalty: -2 }))).toBe(40);
    // Some 15 penalties of 2 cancel the bias of 30.
    const frequency = runOf(await say({ ...only, frequency_penalty: 2 }));
    expect(frequency).toBeGreaterThan(1);
    expect(frequency).toBeLessThan(25);

    const few = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [letterA + i, 60]));
    const different = async (presence_penalty: number): Promise<number> =>
      new Set((await say({ max_tokens: 12, seed: 7, logit_bias: few, presence_penalty })).content).size;
    expect(await different(2)).toBeGreaterThan(await different(-2));
    for (const penalty of ["frequency_penalty", "presence_penalty"]) {
      expect((await api.chat({ model: "m", [penalty]: 2.1 })).json.error.param).toBe(penalty);
    }
  });

  it("shifts the tokens in logit_bias by any number from -100 to 100 (CHAT-11)", async () => {
    const asked = { max_tokens: 5, temperature: 0 };
    expect((await say({ ...asked, logit_bias: { [letterA]: 100 } })).content).toBe("aaaaa");
    const second = { [letterA]: 99.5, [letterA + 1]: -100, [letterA + 2]: 40.25 };
    expect((await say({ ...asked, logit_bias: second })).content).toBe("aaaaa");
    expect((await say({ ...asked, logit_bias: { ...second, [letterA]: -100 } })).content).toBe("ccccc");
  });

  it.each([
    ["outside of the vocabulary", { 5000000: 1 }],
    ["that is no number", { hello: 1 }],
    ["that is negative", { "-1": 1 }],
  ])("rejects a token id %s (CHAT-11)", async (_, logit_bias) => {
    const reply = await api.chat({ model: "m", logit_bias });
    expectError(reply, 400, "invalid_value", "logit_bias");
    expect(reply.json.error.message).toMatch(/token id/);
  });

  it("rejects a bias beyond 100 (CHAT-11)", async () => {
    const reply = await api.chat({ model: "m", logit_bias: { [letterA]: 101 } });
    expect(reply.status).toBe(400);
    expect(reply.json.error.param).toMatch(/^logit_bias/);
  });
});

describe("log probabilities", () => {
  const expectWhole = ({ top_logprobs, ...entry }: TokenEntry): void => {
    for (const token of [entry, ...top_logprobs]) {
      expect(Object.keys(token).sort()).toEqual(["bytes", "logprob", "token"]);
      expect(token.logprob).toBeLessThanOrEqual(0);
      expect(token.logprob).toBeGreaterThanOrEqual(-9999);
    }
  };

  it("have all four keys and finite numbers for every token, sampled, greedy or with a grammar (RESP-9)", async () => {
    const json = { response_format: { type: "json_object" } };
    for (const fields of [
      { seed: 1 },
      { temperature: 0 },
      { seed: 1, top_p: 0.01, ...json },
      { temperature: 0, ...json },
    ]) {
      const { logprobs, usage } = await say({ max_tokens: 30, logprobs: true, top_logprobs: 20, ...fields });
      expect(logprobs).toHaveLength(usage.completion_tokens);
      for (const entry of logprobs) {
        expectWhole(entry);
        expect(entry.top_logprobs.length).toBeLessThanOrEqual(20);
        const numbers = entry.top_logprobs.map(({ logprob }) => logprob);
        expect(numbers).toEqual([...numbers].sort((a, b) => b - a));
      }
    }
  });

  it("have an empty list of alternatives if none were requested, and are empty without tokens (RESP-9)", async () => {
    const { logprobs } = await say({ max_tokens: 4, logprobs: true });
    expect(logprobs.map(({ top_logprobs }) => top_logprobs)).toEqual(logprobs.map(() => []));
    const reply = await api.chat({ model: "m", max_tokens: 4 });
    expect(reply.json.choices[0].logprobs).toBeNull();
  });

  it("contain the bytes of a token, even if they are only a part of a character (RESP-9)", async () => {
    const { logprobs } = await say({ max_tokens: 2, logprobs: true, logit_bias: { [half]: 100 } });
    expect(logprobs.map(({ bytes }) => bytes)).toEqual([[half], [half]]);
    const scripted = wholeAnswer(await api.chat({ model: "scripted", logprobs: true }));
    for (const { token, bytes } of scripted.logprobs) expect(bytes).toEqual([...Buffer.from(token)]);
  });

  it("are sent with the chunk of their tokens, one entry per token in total (STRM-16)", async () => {
    const fields = { model: "scripted", logprobs: true, top_logprobs: 2 };
    const reply = await api.chat({ ...fields, ...streaming });
    const streamed = streamedAnswer(reply);
    expect(streamed.content).toBe(script);
    expect(streamed.logprobs).toHaveLength(scriptTokens);
    expect(streamed.usage.completion_tokens).toBe(scriptTokens);
    expect(streamed.logprobs.map(({ token }) => token)).toEqual(streamed.pieces);
    expect(streamed.logprobs.map(({ token }) => token)).toEqual(
      wholeAnswer(await api.chat(fields)).logprobs.map(({ token }) => token),
    );
  });

  it("have one entry per token when tokens end inside of characters (STRM-16)", async () => {
    const asked = { model: "m", max_tokens: 9, logit_bias: { [half]: 100 }, logprobs: true };
    const streamed = streamedAnswer(await api.chat({ ...asked, ...streaming }));
    expect(streamed.usage.completion_tokens).toBe(9);
    expect(streamed.logprobs).toHaveLength(9);
  });
});

describe("log probabilities of text completions", () => {
  it("are four lists of equal length, with the requested alternatives and the token itself (CMPL-7)", async () => {
    for (const logprobs of [0, 2, 5]) {
      const { json } = await api.completion({ model: "m", prompt: "the", max_tokens: 10, seed: 3, logprobs });
      const { text, logprobs: lists } = json.choices[0];
      expect(Object.keys(lists).sort()).toEqual(["text_offset", "token_logprobs", "tokens", "top_logprobs"]);
      const lengths = Object.values(lists as Record<string, unknown[]>).map((list) => list.length);
      expect(new Set(lengths)).toEqual(new Set([json.usage.completion_tokens]));
      for (const [place, token] of lists.tokens.entries()) {
        const alternatives: Record<string, number> = lists.top_logprobs[place];
        expect(alternatives[token]).toBe(lists.token_logprobs[place]);
        expect(Object.keys(alternatives).length).toBeGreaterThanOrEqual(Math.max(1, logprobs));
        expect(Object.keys(alternatives).length).toBeLessThanOrEqual(logprobs + 1);
        expect(Object.values(alternatives).every((logprob) => Number.isFinite(logprob) && logprob <= 0)).toBe(true);
      }
      expect(typeof text).toBe("string");
    }
    const { json } = await api.completion({ model: "m", prompt: "the", max_tokens: 3 });
    expect(json.choices[0].logprobs).toBeNull();
  });

  it("contain the character offset of each token in the text (CMPL-7)", async () => {
    const { json } = await api.completion({ model: "scripted", prompt: "x", logprobs: 1 });
    const { text, logprobs } = json.choices[0];
    expect(text).toBe(script);
    const characters = [...text];
    const starts: number[] = logprobs.text_offset;
    const pieces = starts.map((start, place) => characters.slice(start, starts[place + 1]).join(""));
    expect(pieces).toEqual(logprobs.tokens);
  });
});
