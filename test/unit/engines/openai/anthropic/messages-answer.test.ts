import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { GenEvent, GenerateRequest } from "../../../../../src/domain/engine/engine.js";
import { SseReader } from "../../../../../src/engines/openai/answer/sse-reader.js";
import { MessagesAnswer } from "../../../../../src/engines/openai/anthropic/messages-answer.js";
import { InvalidResponse, ReportedError } from "../../../../../src/engines/openai/protocol/upstream-failure.js";
import { answerOptions } from "../../../../support/upstream/answer-options.js";
import { chatRequest, textOf } from "../../../../support/upstream/engine-calls.js";
import {
  eventsText,
  recordedAnswer,
  recordedFolder,
  writtenMessages,
} from "../../../../support/upstream/recorded-answers.js";

/** The events of an answer whose body arrives in these reads. */
function eventsOf(request: GenerateRequest, reads: readonly Buffer[]): readonly GenEvent[] {
  const events: GenEvent[] = [];
  const answer = new MessagesAnswer(answerOptions(request), (event) => events.push(event));
  const reader = new SseReader();
  for (const read of reads) {
    reader.push(read);
    for (let data = reader.next(); data !== null; data = reader.next()) if (answer.take(data)) answer.end();
  }
  return events;
}

/** The engine's events for a stream of these events of the API. */
function eventsFrom(given: readonly (object | string)[], request = chatRequest()): readonly GenEvent[] {
  const events: GenEvent[] = [];
  const answer = new MessagesAnswer(answerOptions(request), (event) => events.push(event));
  for (const event of given) answer.take(typeof event === "string" ? event : JSON.stringify(event));
  answer.end();
  return events;
}

const start = { type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 1 } } };
const textStart = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
const text = (value: string) => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text: value },
});
const callStart = (index: number, input: object = {}) => ({
  type: "content_block_start",
  index,
  content_block: { type: "tool_use", id: `toolu_${index}23456789`, name: "get_weather", input },
});
const part = (index: number, json: string) => ({
  type: "content_block_delta",
  index,
  delta: { type: "input_json_delta", partial_json: json },
});
const stopped = (reason: string, usage: object = { output_tokens: 9 }) => ({
  type: "message_delta",
  delta: { stop_reason: reason, stop_sequence: null },
  usage,
});
const argumentsOf = (events: readonly GenEvent[]): string =>
  events.map((event) => (event.type === "tool" ? (event.argsDelta ?? "") : "")).join("");

describe("answers of Anthropic's Messages API", () => {
  const cases = Object.entries(writtenMessages);

  it.each(cases)("%s becomes the events of its golden file", async (name, request) => {
    const { body, headers } = recordedAnswer(name);
    const events: GenEvent[] = [];
    if (headers["content-type"] === "application/json") {
      const answer = new MessagesAnswer(answerOptions(request), (event) => events.push(event));
      answer.takeChunk(JSON.parse(body.toString()));
      answer.end();
    } else events.push(...eventsOf(request, [body]));
    await expect(eventsText(events)).toMatchFileSnapshot(join(recordedFolder, `${name}.events.json`));
  });

  it.each(cases.filter(([name]) => name.endsWith("stream")))(
    "%s gives the same events wherever its bytes are split",
    (name, request) => {
      const { body } = recordedAnswer(name);
      const whole = eventsText(eventsOf(request, [body]));
      for (let at = 1; at < body.length; at++) {
        const split = eventsText(eventsOf(request, [body.subarray(0, at), body.subarray(at)]));
        if (split !== whole) expect(split, `split at byte ${at}`).toBe(whole);
      }
      const bytes = Array.from(body, (_, at) => body.subarray(at, at + 1));
      expect(eventsText(eventsOf(request, bytes))).toBe(whole);
    },
  );

  it.each([
    ["end_turn", "stop"],
    ["pause_turn", "stop"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["refusal", "content_filter"],
    ["a_reason_of_next_year", "stop"],
  ])("the stop reason %s becomes the finish reason %s", (reason, finish) => {
    const events = eventsFrom([start, textStart, text("a"), stopped(reason)]);
    expect(events.find(({ type }) => type === "finish")).toMatchObject({ reason: finish, outTokens: 9 });
  });

  it("prompt tokens are the uncached ones, those written to the cache and those read from it together", () => {
    const usage = { input_tokens: 3, cache_creation_input_tokens: 20, cache_read_input_tokens: 100, output_tokens: 1 };
    const events = eventsFrom([
      { type: "message_start", message: { usage } },
      textStart,
      text("a"),
      stopped("end_turn", { output_tokens: 4 }),
    ]);
    expect(events[0]).toEqual({ type: "accepted", promptTokens: 123, cachedTokens: 100 });
    expect(events.at(-1)).toMatchObject({ promptTokens: 123, cachedTokens: 100, outTokens: 4 });
  });

  it("without usage the prompt is estimated, and each delta counts as one token", () => {
    const events = eventsFrom([textStart, text("a"), text("b"), stopped("end_turn", {})]);
    expect(events.at(-1)).toMatchObject({ promptTokens: 7, outTokens: 2 });
  });

  it("text is the same in every spelling of a delta", () => {
    const spellings = [
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"plain"}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"padded"}      }',
      '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "spaced"}}',
      '{"index":0,"delta":{"text":"reordered","type":"text_delta"},"type":"content_block_delta"}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \\"b\\" \\u00e9\\n"}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"more","citations":[]}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}',
    ];
    const expected = spellings.map((data) => (JSON.parse(data) as ReturnType<typeof text>).delta.text);
    const events = eventsFrom([start, textStart, ...spellings, ...spellings, stopped("end_turn")]);
    expect(textOf(events)).toBe([...expected, ...expected].join(""));
  });

  it("thinking becomes reasoning, and text after it is text again", () => {
    const thought = { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } };
    const events = eventsFrom([
      start,
      { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "" } },
      thought,
      thought,
      { ...textStart, index: 1 },
      { ...text("yes"), index: 1 },
      stopped("end_turn"),
    ]);
    const kinds = events.map((event) => ("text" in event ? `${event.type} ${event.text}` : event.type));
    expect(kinds).toEqual(["accepted", "reasoning hm", "reasoning hm", "text yes", "finish", "usage"]);
  });

  it("arguments in the start of a call are used if no delta with arguments follows", () => {
    const stop = (index: number) => ({ type: "content_block_stop", index });
    const whole = eventsFrom([start, callStart(0, { city: "Rome" }), stop(0), stopped("tool_use")]);
    expect(argumentsOf(whole)).toBe('{"city":"Rome"}');
    const parts = eventsFrom([
      start,
      callStart(0, { city: "?" }),
      part(0, '{"city":'),
      part(0, "1}"),
      stop(0),
      stopped("tool_use"),
    ]);
    expect(argumentsOf(parts)).toBe('{"city":1}');
  });

  it("blocks of tools that the server runs itself are left out", () => {
    const events = eventsFrom([
      start,
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "server_tool_use", id: "s", name: "web_search" },
      },
      part(0, '{"query":"x"}'),
      { type: "content_block_start", index: 1, content_block: { type: "web_search_tool_result", content: [] } },
      { ...textStart, index: 2 },
      { ...text("found"), index: 2 },
      stopped("end_turn"),
    ]);
    expect(events.map(({ type }) => type)).toEqual(["accepted", "text", "finish", "usage"]);
  });

  it("pings and unknown events have no effect", () => {
    const given = [{ type: "ping" }, start, { type: "ping" }, textStart, { type: "news" }, "5", text("a"), "null"];
    expect(textOf(eventsFrom([...given, stopped("end_turn")]))).toBe("a");
  });

  it("events before the first content do not count as the beginning of the answer", () => {
    const answer = new MessagesAnswer(answerOptions(chatRequest()), () => {});
    for (const event of [start, { type: "ping" }]) answer.take(JSON.stringify(event));
    expect(answer.hasBegun).toBe(false);
    answer.take(JSON.stringify(textStart));
    expect(answer.hasBegun).toBe(true);
  });

  it("an answer without a stop reason, or with data that is no event, is invalid", () => {
    expect(() => eventsFrom([start, textStart, text("a"), { type: "message_stop" }])).toThrow(InvalidResponse);
    expect(() => eventsFrom([start, "{"])).toThrow(InvalidResponse);
    expect(() => eventsFrom([start, part(3, "{}")])).toThrow(InvalidResponse);
    expect(() => eventsFrom([start, { type: "error", error: { type: "overloaded_error" } }])).toThrow(ReportedError);
  });

  it("a forced call that does not come is an error", () => {
    const forced = chatRequest({ tool: { mode: "required" } });
    expect(() => eventsFrom([start, textStart, text("no"), stopped("end_turn")], forced)).toThrow(InvalidResponse);
  });
});
