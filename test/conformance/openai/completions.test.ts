import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type Api, createApi, eventsOf, expectError } from "./api.js";

const bad: readonly (readonly [title: string, fields: object, code: ErrorCode, param: string])[] = [
  ["no prompt (CMPL-1)", { prompt: undefined }, "missing_required_parameter", "prompt"],
  ["a null prompt (CMPL-1)", { prompt: null }, "missing_required_parameter", "prompt"],
  ["an empty list (CMPL-1)", { prompt: [] }, "empty_array", "prompt"],
  ["a number (CMPL-1)", { prompt: 5 }, "invalid_type", "prompt"],
  ["texts and ids mixed (CMPL-1)", { prompt: ["a", 1] }, "invalid_type", "prompt[1]"],
  ["ids and texts mixed (CMPL-1)", { prompt: [1, "a"] }, "invalid_type", "prompt[1]"],
  ["lists and ids mixed (CMPL-1)", { prompt: [[1], 2] }, "invalid_type", "prompt[1]"],
  [
    "token ids for a model that takes none (CMPL-2)",
    { model: "echo", prompt: [1, 2] },
    "token_input_not_supported",
    "prompt",
  ],
  ["too many choices in all (CMPL-3)", { prompt: Array(9).fill("a"), n: 15 }, "integer_above_max_value", "n"],
  ["too many log probabilities (CMPL-7)", { logprobs: 6 }, "integer_above_max_value", "logprobs"],
  ["log probabilities as in chat (CMPL-7)", { logprobs: true }, "invalid_type", "logprobs"],
  ["echo of another type (CMPL-8)", { echo: "yes" }, "invalid_type", "echo"],
  ["more candidates than choices (CMPL-10)", { best_of: 3, n: 2 }, "unsupported_parameter", "best_of"],
  ["a suffix (CMPL-11)", { suffix: "end" }, "unsupported_parameter", "suffix"],
  ["a negative limit (CMPL-12)", { max_tokens: -1 }, "integer_below_min_value", "max_tokens"],
  ["a temperature of another type (CMPL-12, GEN-8)", { temperature: "0" }, "invalid_type", "temperature"],
  ["a temperature out of range (CMPL-12)", { temperature: 3 }, "decimal_above_max_value", "temperature"],
  ["no model (GEN-13)", { model: undefined }, "missing_required_parameter", "model"],
  ["an embedding model (GEN-13)", { model: "test-embed" }, "model_not_supported", "model"],
];

describe("text completions", () => {
  let service: RunningService;
  let api: Api;

  beforeAll(async () => {
    service = await startService({
      config: {
        models: [
          { id: "test-chat", engine: "scripted", scripted: { text: "one two three", token_input: true } },
          { id: "echo", engine: "scripted", scripted: {} },
          { id: "long", engine: "scripted", scripted: { tokens: 100, context_length: 40 } },
          { id: "test-embed", engine: "scripted", scripted: { dimensions: 8 } },
        ],
      },
    });
    api = createApi(service);
  });
  afterAll(() => service.close());

  it.each(bad)("%s is rejected", async (_, fields, code, param) => {
    expectError(await api.completion(fields), 400, code, param);
  });

  it("the document has exactly these bytes (CMPL-4, CMPL-5, RESP-15, PROTO-1)", async () => {
    expect((await api.completion()).json).toEqual({
      id: expect.stringMatching(/^cmpl-[A-Za-z0-9]{24,}$/),
      object: "text_completion",
      created: expect.any(Number),
      model: "test-chat",
      choices: [{ text: "one two three", index: 0, logprobs: null, finish_reason: "stop" }],
      usage: {
        prompt_tokens: 2,
        completion_tokens: 3,
        total_tokens: 5,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
      system_fingerprint: expect.stringMatching(/^fp_/),
    });
  });

  it("one list of token ids is one prompt, and a list of lists is several prompts (CMPL-2)", async () => {
    expect((await api.completion({ prompt: [1, 2, 3] })).json).toMatchObject({
      choices: [{ index: 0 }],
      usage: { prompt_tokens: 3 },
    });
    expect((await api.completion({ prompt: [[1, 2], [3]] })).json.choices).toHaveLength(2);
  });

  it("choices are numbered by prompt first; each prompt counts once (CMPL-3, CMPL-13)", async () => {
    const { json } = await api.completion({ model: "echo", prompt: ["a", "b c"], n: 2 });
    expect(json.choices.map(({ index, text }: { index: number; text: string }) => [index, text])).toEqual([
      [0, "a"],
      [1, "a"],
      [2, "b c"],
      [3, "b c"],
    ]);
    expect(json.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 });
  });

  it("a stream numbers choices in the same way, each with its own end (CMPL-3, CMPL-5)", async () => {
    const { text } = await api.completion({ model: "echo", prompt: ["a", "b c"], n: 2, stream: true });
    const choices = eventsOf(text)
      .slice(0, -1)
      .map((chunk) => chunk.choices[0]);
    const texts = [0, 1, 2, 3].map((index) =>
      choices
        .filter((choice) => choice.index === index)
        .map((choice) => choice.text)
        .join(""),
    );
    expect(texts).toEqual(["a", "a", "b c", "b c"]);
    for (const index of [0, 1, 2, 3]) {
      const reasons = choices.filter((choice) => choice.index === index).map((choice) => choice.finish_reason);
      expect(reasons.slice(0, -1).every((reason) => reason === null)).toBe(true);
      expect(reasons.at(-1)).toBe("stop");
    }
  });

  it("log probabilities are four lists of equal length, in contrast to chat (CMPL-7, CMPL-9)", async () => {
    const { logprobs } = (await api.completion({ logprobs: 2 })).json.choices[0];
    expect(Object.keys(logprobs)).toEqual(["tokens", "token_logprobs", "top_logprobs", "text_offset"]);
    expect(logprobs.tokens).toEqual(["one", " two", " three"]);
    expect(logprobs.text_offset).toEqual([0, 3, 7]);
    for (const list of Object.values(logprobs) as unknown[][]) expect(list).toHaveLength(3);
  });

  it("echo begins with the prompt, also with max_tokens 0 (CMPL-8)", async () => {
    expect((await api.completion({ prompt: "Say: ", echo: true })).json.choices[0].text).toMatch(
      /^Say: .*one two three$/,
    );
    const scored = (await api.completion({ prompt: "a b", echo: true, max_tokens: 0 })).json;
    expect(scored.choices[0].text).toBe("a b");
    expect(scored.usage.completion_tokens).toBe(0);
  });

  it("with log probabilities the first token of an echoed prompt has null (E-7, CMPL-8)", async () => {
    const asked = { prompt: "a b", echo: true, logprobs: 1, max_tokens: 0 };
    const { logprobs } = (await api.completion(asked)).json.choices[0];
    expect(logprobs).toEqual({
      tokens: ["a", " b"],
      token_logprobs: [null, -0.1],
      top_logprobs: [null, { " b": -0.1 }],
      text_offset: [0, 1],
    });
  });

  it("best_of of 1 or n has no effect (CMPL-10)", async () => {
    expect((await api.completion({ best_of: 1 })).status).toBe(200);
    expect((await api.completion({ best_of: 2, n: 2 })).status).toBe(200);
  });

  it("the fields that chat also has have the same effect (CMPL-12)", async () => {
    const { choices } = (await api.completion({ stop: "two", temperature: 0, seed: 1, user: "u" })).json;
    expect(choices[0]).toMatchObject({ text: "one ", finish_reason: "stop" });
    expect((await api.completion({ max_tokens: 2 })).json.choices[0]).toMatchObject({
      text: "one two",
      finish_reason: "length",
    });
  });

  it("an answer may use the rest of the context without max_tokens, and 16 tokens with max_tokens 16 (DEC-3, CHAT-6)", async () => {
    const { json } = await api.completion({ model: "long", prompt: "a b c d e" });
    expect(json.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 35 });
    expect(json.choices[0].finish_reason).toBe("length");
    expect((await api.completion({ model: "long", max_tokens: 16 })).json.usage.completion_tokens).toBe(16);
  });

  it("the prompt reaches the engine unchanged (CMPL-14)", async () => {
    const prompt = "<|im_start|>user\n</s>[INST] \u00e9\ud83d\ude00";
    expect((await api.completion({ model: "echo", prompt })).json.choices[0].text).toBe(prompt);
  });
});
