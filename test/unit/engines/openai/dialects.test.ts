import { describe, expect, it } from "vitest";
import type { GenEvent, GenerateRequest } from "../../../../src/domain/engine/engine.js";
import { AnswerEvents } from "../../../../src/engines/openai/answer/answer-events.js";
import { answerOptions } from "../../../support/upstream/answer-options.js";
import { chatRequest, completionRequest, textOf } from "../../../support/upstream/engine-calls.js";

/** The events of an answer that consists of these chunks. */
function events(chunks: readonly unknown[], request: GenerateRequest = chatRequest()): GenEvent[] {
  const seen: GenEvent[] = [];
  const answer = new AnswerEvents(answerOptions(request), (event) => seen.push(event));
  for (const chunk of chunks) answer.take(typeof chunk === "string" ? chunk : JSON.stringify(chunk));
  answer.end();
  return seen;
}

/** A chunk of one choice. */
const chunk = (delta: unknown, finish: unknown = null, more: object = {}) => ({
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});
const stop = chunk({}, "stop");
const without = (seen: readonly GenEvent[], ...types: readonly string[]) =>
  seen.filter(({ type }) => !types.includes(type));
const content = (seen: readonly GenEvent[]) => without(seen, "accepted", "finish", "usage");
const finish = (seen: readonly GenEvent[]) => seen.find((event) => event.type === "finish");
const usage = (seen: readonly GenEvent[]) => seen.at(-1);

describe("dialects of upstream servers", () => {
  it("llama.cpp: skips events whose data is no object", () => {
    expect(textOf(events(["null", "5", '"x"', "true", "[]", chunk({ content: "a" }), stop]))).toBe("a");
  });

  it("llama.cpp: adds up the usage on the last chunk of each choice", () => {
    const last = (index: number, out: number) => ({
      choices: [{ index, text: "", finish_reason: "length" }],
      usage: { prompt_tokens: 5, completion_tokens: out, prompt_tokens_details: { cached_tokens: 4 } },
    });
    const seen = events([{ choices: [{ index: 1, text: "b" }] }, last(1, 3), last(0, 2)], completionRequest({ n: 2 }));
    expect(usage(seen)).toEqual({ type: "usage", promptTokens: 5, outTokens: 5, cachedTokens: 4, reasoningTokens: 0 });
    expect(seen.filter(({ type }) => type === "finish")).toMatchObject([
      { choice: 0, outTokens: 2 },
      { choice: 1, outTokens: 3 },
    ]);
  });

  it("vLLM and SGLang: the stop string that ended the choice is reported, but not the id of a stop token", () => {
    const ended = (more: object) => {
      const last = { choices: [{ index: 0, delta: {}, finish_reason: "stop", ...more }] };
      return finish(events([chunk({ content: "a" }), last]));
    };
    expect(ended({ stop_reason: "END" })).toMatchObject({ reason: "stop", stopSequence: "END" });
    expect(ended({ matched_stop: "END" })).toMatchObject({ reason: "stop", stopSequence: "END" });
    expect(ended({ stop_reason: 151645 })).not.toHaveProperty("stopSequence");
    expect(ended({ stop_reason: null })).not.toHaveProperty("stopSequence");
  });

  it("llama.cpp: reads role and text in the first chunk", () => {
    expect(content(events([chunk({ role: "assistant", content: "Hi" }), stop]))).toEqual([
      { type: "text", choice: 0, text: "Hi", outTokens: 1 },
    ]);
  });

  it("an answer without the forced call is an error, unless the token limit cut it before any content", () => {
    const request = chatRequest({ tool: { mode: "required" } });
    expect(() => events([chunk({ content: "The weather" }), stop], request)).toThrow("did not make the tool call");
    expect(() => events([chunk({ content: "The" }), chunk({}, "length")], request)).toThrow(
      "did not make the tool call",
    );
    expect(() => events([stop], request)).toThrow("did not make the tool call");
    expect(finish(events([chunk({}, "length")], request))).toMatchObject({ reason: "length" });
  });

  it("text before a forced call is held until the call comes", () => {
    const call = {
      index: 0,
      id: "call_123456789",
      type: "function",
      function: { name: "get_weather", arguments: "{}" },
    };
    const seen = events(
      [chunk({ content: "Let me " }), chunk({ content: "look." }), chunk({ tool_calls: [call] }), chunk({}, "stop")],
      chatRequest({ tool: { mode: "required" } }),
    );
    expect(content(seen)).toMatchObject([
      { type: "text", text: "Let me look." },
      { type: "tool", index: 0, id: "call_123456789", name: "get_weather", argsDelta: "{}" },
    ]);
    expect(finish(seen)).toMatchObject({ reason: "tool_calls" });
  });

  it("vLLM: the finish chunk carries the last text, and unknown members are dropped", () => {
    const seen = events([
      chunk({ content: "a" }, null, { prompt_token_ids: null, kv_transfer_params: { x: 1 }, metrics: {} }),
      { choices: [{ index: 0, delta: { content: "b" }, finish_reason: "stop", stop_reason: 2, token_ids: [1] }] },
    ]);
    expect(textOf(seen)).toBe("ab");
    expect(without(seen, "accepted", "text", "usage")).toEqual([
      { type: "finish", choice: 0, reason: "stop", outTokens: 2 },
    ]);
  });

  it("vLLM: a fingerprint in the last chunk gives a second `accepted` event", () => {
    const seen = events([chunk({ content: "a" }), stop, { choices: [], system_fingerprint: "vllm-0.32.0-ab" }]);
    expect(seen.filter(({ type }) => type === "accepted")).toMatchObject([{}, { fingerprint: "vllm-0.32.0-ab" }]);
  });

  it("every change of the fingerprint is reported, even in chunks that match a template", () => {
    const a = chunk({ content: "a" }, null, { system_fingerprint: "a" });
    const b = chunk({ refusal: "b" }, null, { system_fingerprint: "b" });
    const seen = events([a, a, b, a, stop]);
    expect(seen.flatMap((event) => (event.type === "accepted" ? [event.fingerprint] : []))).toEqual(["a", "b", "a"]);
  });

  it("the prefix `fp_` and all characters but printable ASCII are removed from a fingerprint (SEC-24)", () => {
    const [accepted] = events([chunk({ content: "a" }, "stop", { system_fingerprint: "fp_a\r\nx: é1" })]);
    expect(accepted).toMatchObject({ type: "accepted", fingerprint: "ax:1" });
  });

  it("vLLM and SGLang: usage on every chunk makes the counts exact", () => {
    const out = (tokens: number) => ({
      usage: { prompt_tokens: 9, completion_tokens: tokens, total_tokens: 9 + tokens },
    });
    const seen = events([
      chunk({ role: "assistant" }, null, out(0)),
      chunk({ content: "ab" }, null, out(2)),
      chunk({ content: "cd" }, null, out(5)),
      chunk({}, "stop", out(6)),
    ]);
    expect(content(seen)).toMatchObject([{ outTokens: 2 }, { outTokens: 5 }]);
    expect(seen[0]).toMatchObject({ type: "accepted", promptTokens: 9 });
    expect(usage(seen)).toMatchObject({ promptTokens: 9, outTokens: 6 });
  });

  it("SGLang: null counts as absent, and the first finish reason of a choice is used", () => {
    const empty = { role: null, content: null, reasoning_content: null, tool_calls: null };
    const seen = events([
      chunk({ ...empty, content: "a" }, ""),
      { choices: [{ index: 0, delta: empty, finish_reason: "length", matched_stop: 2 }] },
      chunk({ ...empty, content: "late" }, "stop"),
    ]);
    expect(textOf(seen)).toBe("a");
    expect(seen.filter(({ type }) => type === "finish")).toMatchObject([{ reason: "length" }]);
  });

  it("SGLang: calls without an index and with repeated ids get unique ids", () => {
    const call = (name: string) => ({
      index: null,
      id: "0",
      type: "function",
      function: { name, arguments: '{"a":1}' },
    });
    const seen = events([
      {
        choices: [
          {
            index: 0,
            message: { content: null, tool_calls: [call("f"), { ...call("g"), id: "1" }] },
            finish_reason: "tool_calls",
          },
        ],
      },
    ]);
    expect(content(seen)).toEqual([
      { type: "tool", choice: 0, index: 0, outTokens: 1, id: "call_1", name: "f", argsDelta: '{"a":1}' },
      { type: "tool", choice: 0, index: 1, outTokens: 1, id: "call_2", name: "g", argsDelta: '{"a":1}' },
    ]);
  });

  it("Azure: ignores chunks without choices, choices without delta, and filter results", () => {
    const seen = events([
      { id: "", model: "", created: 0, choices: [], prompt_filter_results: [{ prompt_index: 0 }] },
      { choices: [{ index: 0, delta: { content: "a" }, content_filter_results: {} }] },
      { choices: [{ index: 0, finish_reason: null, content_filter_offsets: {} }] },
      { choices: [{ index: 0, finish_reason: "stop" }] },
    ]);
    expect(textOf(seen)).toBe("a");
    expect(finish(seen)).toMatchObject({ reason: "stop" });
  });

  it("Ollama: reads the role in every chunk and a whole call in one chunk, with arguments as an object", () => {
    const seen = events([
      chunk({ role: "assistant", content: "" }),
      chunk({
        role: "assistant",
        content: "",
        tool_calls: [{ function: { name: "f", arguments: { city: "Paris" } } }],
      }),
      chunk({ role: "assistant", content: "", tool_calls: [{ function: { name: "g" } }] }),
      chunk({ role: "assistant", content: "" }, "stop"),
    ]);
    expect(content(seen)).toMatchObject([
      { index: 0, id: "call_1", name: "f", argsDelta: '{"city":"Paris"}' },
      { index: 1, id: "call_2", name: "g" },
    ]);
    expect(finish(seen)).toMatchObject({ reason: "tool_calls" });
  });

  it("calls in pieces are read: with index gaps, a repeated name, arguments before the name, all at index 0", () => {
    const piece = (call: object) => chunk({ tool_calls: [call] });
    const seen = events([
      piece({ index: 3, id: "call_aaaaaaaa", function: { arguments: "{" } }),
      piece({ index: 3, function: { name: "f", arguments: "" } }),
      piece({ index: 3, function: { name: "f", arguments: "}" } }),
      piece({ index: 5, id: "call_bbbbbbbb", type: "function", function: { name: "g", arguments: "{}" } }),
      piece({ index: 5, id: "call_cccccccc", function: { name: "h", arguments: null } }),
      chunk({}, "tool_calls"),
    ]);
    expect(content(seen)).toMatchObject([
      { index: 0, id: "call_aaaaaaaa", name: "f", argsDelta: "{" },
      { index: 0, argsDelta: "}" },
      { index: 1, id: "call_bbbbbbbb", name: "g", argsDelta: "{}" },
      { index: 2, id: "call_cccccccc", name: "h" },
    ]);
  });

  it("calls without a name, and deltas of a call after the next call has begun, are rejected", () => {
    const piece = (call: object) => chunk({ tool_calls: [call] });
    expect(() => events([piece({ index: 0, function: { arguments: "{}" } }), stop])).toThrow("without a name");
    const named = (index: number) =>
      piece({ index, id: `call_00000000${index}`, function: { name: "f", arguments: "" } });
    expect(() => events([named(0), named(1), piece({ index: 0, function: { arguments: "{}" } })])).toThrow("mixes");
  });

  it("calls after the first are dropped if the request allows only one", () => {
    const call = (index: number) => ({ index, id: `call_00000000${index}`, function: { name: "f", arguments: "{}" } });
    const request = chatRequest({ tool: { mode: "auto" } });
    const single = { ...request, input: { ...request.input, parallelToolCalls: false } } as GenerateRequest;
    expect(content(events([chunk({ tool_calls: [call(0), call(1)] }), stop], single))).toMatchObject([{ index: 0 }]);
  });

  it("Groq, DeepSeek: usage and cached tokens are read under the providers' own names", () => {
    const figures = { prompt_tokens: 8, completion_tokens: 2, prompt_cache_hit_tokens: 6 };
    const groq = events([chunk({ content: "a" }), chunk({}, "stop", { x_groq: { usage: figures } })]);
    expect(usage(groq)).toMatchObject({ promptTokens: 8, outTokens: 2, cachedTokens: 6 });
    const deepseek = events([
      chunk({ content: "a" }),
      stop,
      { choices: [], usage: { ...figures, completion_tokens_details: { reasoning_tokens: 1 } } },
    ]);
    expect(usage(deepseek)).toMatchObject({ outTokens: 2, cachedTokens: 6, reasoningTokens: 1 });
  });

  it("OpenRouter: provider fields are dropped, and the finish reason `error` is an error", () => {
    const seen = events([chunk({ content: "a" }, null, { provider: "X" }), chunk({}, "stop", { cost: 1 })]);
    expect(textOf(seen)).toBe("a");
    expect(() => events([chunk({ content: "a" }), chunk({}, "error")])).toThrow("ended the answer with 'error'");
  });

  it("Gemini: an answer without a finish reason, or with a list that contains an error, is an error", () => {
    expect(() => events([chunk({ content: "a" })])).toThrow("without a finish reason");
    expect(() => events([[{ error: { code: 503, message: "overloaded" } }]])).toThrow("reported an error");
  });

  it.each([
    ["an object", { error: { message: "boom", type: "server_error" } }],
    ["a text", { error: "boom" }],
    ["a flat payload", { object: "error", message: "boom", code: 400 }],
  ])("an error within the stream ends the answer with an error: %s", (_, error) => {
    expect(() => events([chunk({ content: "a" }), error])).toThrow("reported an error");
  });

  it("a member `error` with the value null is ignored", () => {
    expect(textOf(events([chunk({ content: "a" }, "stop", { error: null })]))).toBe("a");
  });

  it("OpenAI: refusals and reasoning become events, and padding is dropped", () => {
    const seen = events([
      chunk({ reasoning_content: "Hm", reasoning: "Hm" }),
      chunk({ reasoning: "m" }, null, { obfuscation: "xyz" }),
      chunk({ refusal: "I can't" }),
      stop,
    ]);
    expect(content(seen)).toMatchObject([
      { type: "reasoning", text: "Hm" },
      { type: "reasoning", text: "m" },
      { type: "refusal", text: "I can't" },
    ]);
  });

  it("Mistral: joins the text of content parts; thinking is reasoning", () => {
    const parts = [
      { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ];
    expect(content(events([chunk({ content: parts }), stop]))).toMatchObject([
      { type: "reasoning", text: "hm" },
      { type: "text", text: "ab" },
    ]);
  });

  it("surrogates in two chunks are joined, and a lone surrogate is replaced", () => {
    const seen = events([
      chunk({ content: "a\ud83d" }),
      chunk({ content: "\ude00b" }),
      chunk({ content: "\ud83d" }),
      stop,
    ]);
    expect(textOf(seen)).toBe("a😀b\ufffd");
    expect(textOf(events([chunk({ content: "\ude00" }), stop]))).toBe("\ufffd");
  });

  it("log probabilities of tokens without text come with the next text, and -inf as -9999 (RESP-9)", () => {
    const logprobs = (...tokens: [string, number | null, number[]?][]) => ({
      content: tokens.map(([token, logprob, bytes]) => ({ token, logprob, bytes, top_logprobs: [] })),
    });
    const choice = (text: string, list: object) => ({
      choices: [{ index: 0, delta: { content: text }, logprobs: list }],
    });
    const seen = events(
      [choice("", logprobs(["\ufffd", -1, [240, 159]])), choice("😀", logprobs(["\ufffd", null, [152, 128]])), stop],
      chatRequest({ logprobs: 0 }),
    );
    expect(content(seen)).toMatchObject([
      {
        text: "😀",
        logprobs: [
          { token: "\ufffd", logprob: -1, bytes: [240, 159] },
          { token: "\ufffd", logprob: -9_999, bytes: [152, 128] },
        ],
      },
    ]);
  });

  it("texts after the first are joined if the answer is not streamed", () => {
    const seen = events(
      [..."abcdef"].map((text) => chunk({ content: text })).concat(stop),
      chatRequest({ deltas: "joined" }),
    );
    expect(content(seen)).toMatchObject([{ text: "a" }, { text: "bcdef", outTokens: 6 }]);
  });

  it("without usage, each chunk counts as one token and the prompt is estimated by its length", () => {
    const seen = events([chunk({ content: "ab" }), chunk({ content: "cd" }), stop]);
    expect(usage(seen)).toEqual({ type: "usage", promptTokens: 7, outTokens: 2, cachedTokens: 0, reasoningTokens: 0 });
    const zero = events([
      chunk({ content: "ab" }),
      stop,
      { choices: [], usage: { prompt_tokens: 3, completion_tokens: 0 } },
    ]);
    expect(usage(zero)).toMatchObject({ promptTokens: 3, outTokens: 1 });
  });

  it("usage numbers that are not non-negative integers are ignored", () => {
    const bad = { prompt_tokens: -1, completion_tokens: 1e300, prompt_tokens_details: { cached_tokens: 99 } };
    const seen = events([chunk({ content: "a" }), chunk({}, "stop", { usage: bad })]);
    expect(usage(seen)).toEqual({ type: "usage", promptTokens: 7, outTokens: 1, cachedTokens: 7, reasoningTokens: 0 });
  });

  it("choices that were not requested are ignored, and an unfinished choice is an error", () => {
    expect(textOf(events([{ choices: [{ index: 7, delta: { content: "x" } }] }, chunk({ content: "a" }), stop]))).toBe(
      "a",
    );
    expect(() => events([chunk({ content: "a" }), stop], chatRequest({ n: 2 }))).toThrow("without a finish reason");
  });

  it("events that are not JSON are rejected", () => {
    expect(() => events(["<html>"])).toThrow("not JSON");
  });

  it("an echoed prompt comes before the text and does not count as output", () => {
    const seen: GenEvent[] = [];
    const answer = new AnswerEvents({ ...answerOptions(completionRequest()), echo: "The" }, (event) =>
      seen.push(event),
    );
    answer.takeChunk({ choices: [{ index: 0, text: " end", finish_reason: "stop" }] });
    answer.end();
    expect(content(seen)).toMatchObject([
      { text: "The", outTokens: 0 },
      { text: " end", outTokens: 1 },
    ]);
  });
});
