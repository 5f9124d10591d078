import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import { AnswerEvents } from "../../../../src/engines/openai/answer/answer-events.js";
import { answerOptions } from "../../../support/upstream/answer-options.js";
import { chatRequest, completionRequest, textOf } from "../../../support/upstream/engine-calls.js";

describe("answers of llama.cpp's own server", () => {
  it("progress of a prompt states the prompt's size and is not the beginning of the answer", () => {
    const seen: GenEvent[] = [];
    const answer = new AnswerEvents(answerOptions(completionRequest()), (event) => seen.push(event));
    const progress = { prompt_progress: { total: 400, cache: 128, processed: 256, time_ms: 9 } };
    for (let i = 0; i < 20; i++) answer.take(JSON.stringify({ choices: [{ index: 0, text: "" }], ...progress }));
    expect(seen).toEqual([{ type: "accepted", promptTokens: 400, cachedTokens: 128 }]);
    expect(answer.hasBegun).toBe(false);
    expect(answer.usageSoFar).toMatchObject({ promptTokens: 400, outTokens: 0, cachedTokens: 128 });
    answer.take(JSON.stringify({ choices: [{ index: 0, text: "a" }] }));
    expect(answer.hasBegun).toBe(true);
    expect(textOf(seen)).toBe("a");
  });

  it("the end of an answer has no log probability", () => {
    const entry = (token: string) => ({ token, bytes: [...Buffer.from(token)], logprob: 0, top_logprobs: [] });
    const piece = (token: string, finish: string | null) => ({
      choices: [{ index: 0, text: token, logprobs: { content: [entry(token)] }, finish_reason: finish }],
    });
    const seen: GenEvent[] = [];
    const answer = new AnswerEvents(answerOptions(completionRequest({ logprobs: 0 })), (event) => seen.push(event));
    for (const made of [piece("a", null), piece("", "stop")]) answer.take(JSON.stringify(made));
    answer.end();
    expect(seen.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []))).toEqual([
      { token: "a", logprob: 0, top: [] },
    ]);
  });

  it("the first token of a prompt that the server echoes has no log probability (E-7, CMPL-8)", () => {
    const logprobs = { tokens: ["a", " b"], token_logprobs: [null, -1], top_logprobs: [null, { " b": -1 }] };
    const chunk = JSON.stringify({ choices: [{ index: 0, text: "a b", logprobs, finish_reason: "length" }] });
    const ofFirst = (fields: object): number | undefined => {
      const seen: GenEvent[] = [];
      const request = completionRequest({ logprobs: 1, ...fields });
      const answer = new AnswerEvents(answerOptions(request), (event) => seen.push(event));
      answer.take(chunk);
      answer.end();
      return seen.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []))[0]?.logprob;
    };
    expect(ofFirst({ echo: true })).toBeNaN();
    expect(ofFirst({})).toBe(-9999);
  });

  it("text that the server generates after an echo without further tokens is dropped", () => {
    const seen: GenEvent[] = [];
    const options = { ...answerOptions(completionRequest()), echo: "a b", isEchoOnly: true };
    const answer = new AnswerEvents(options, (event) => seen.push(event));
    const usage = { prompt_tokens: 3, completion_tokens: 1 };
    answer.take(JSON.stringify({ choices: [{ index: 0, text: "one", finish_reason: "length" }], usage }));
    answer.end();
    expect(textOf(seen)).toBe("a b");
    expect(seen.at(-1)).toMatchObject({ type: "usage", promptTokens: 3, outTokens: 0 });
  });

  it("a forced call that does not come within 32,768 characters is an error", () => {
    const answer = new AnswerEvents(answerOptions(chatRequest({ tool: { mode: "required" } })), () => {});
    const piece = JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(1_024) } }] });
    for (let i = 0; i < 32; i++) answer.take(piece);
    expect(() => answer.take(piece)).toThrow("did not make the tool call");
  });
});
