import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../../src/domain/engine/engine.js";
import type { NativeApi } from "../../../../../src/domain/engine/upstream.js";
import { SseReader } from "../../../../../src/engines/openai/answer/sse-reader.js";
import { NativeAnswer } from "../../../../../src/engines/openai/native/native-answer.js";
import { nativeEvents } from "../../../../../src/engines/openai/native/native-events.js";
import { InvalidResponse, ReportedError } from "../../../../../src/engines/openai/protocol/upstream-failure.js";
import { recordedAnswer } from "../../../../support/upstream/recorded-answers.js";

const options = (api: NativeApi, joins: boolean) => ({
  events: nativeEvents(api),
  model: "our-model",
  joins,
  fingerprint: "",
  estimatedPromptTokens: () => 7,
});

/** The events of an answer whose body arrives in these reads. */
function eventsOf(api: NativeApi, reads: readonly Buffer[], joins = false): readonly GenEvent[] {
  const events: GenEvent[] = [];
  const answer = new NativeAnswer(options(api, joins), (event) => events.push(event));
  const reader = new SseReader();
  for (const read of reads) {
    reader.push(read);
    for (let data = reader.next(); data !== null; data = reader.next()) if (answer.take(data)) answer.end();
  }
  return events;
}

const bodyOf = (name: string): Buffer => recordedAnswer(name).body;
const nativeText = (events: readonly GenEvent[]): string =>
  events.map((event) => (event.type === "native" ? event.text : "")).join("");
/** The data of the events of a stream. */
const dataOf = (stream: string): unknown[] =>
  stream.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6)) as unknown] : []));
const withoutPings = (data: readonly unknown[]) => data.filter((event) => (event as { type: string }).type !== "ping");

const streams = [
  ["messages", "anthropic/chat-stream"],
  ["messages", "anthropic/chat-tools-stream"],
  ["messages", "anthropic/chat-thinking-stream"],
  ["messages", "anthropic/chat-stop-stream"],
  ["responses", "responses/text-stream"],
  ["responses", "responses/call-stream"],
] as const;

describe("answers that are passed on in the API of their request", () => {
  it.each(streams)("%s: the events of %s are unchanged except for the name of the model", (api, name) => {
    const body = bodyOf(name);
    const passed = nativeText(eventsOf(api, [body]));
    const renamed = body.toString().replaceAll(/"model":"[^"]*"/g, '"model":"our-model"');
    expect(withoutPings(dataOf(passed))).toEqual(withoutPings(dataOf(renamed)));
    const names = (text: string) => text.match(/^event: (?!ping).*$/gm);
    expect(names(passed)).toEqual(names(body.toString()));
  });

  it.each(streams)("%s: the events of %s are the same wherever the bytes are split", (api, name) => {
    const body = bodyOf(name);
    const whole = JSON.stringify(eventsOf(api, [body]));
    for (let at = 1; at < body.length; at++) {
      const split = JSON.stringify(eventsOf(api, [body.subarray(0, at), body.subarray(at)]));
      if (split !== whole) expect(split, `split at byte ${at}`).toBe(whole);
    }
  });

  it.each([
    ["messages", "anthropic/chat-stream", 1_508, 17, 1_200, "stop"],
    ["messages", "anthropic/chat-tools-stream", 472, 89, 0, "tool_calls"],
    ["responses", "responses/text-stream", 36, 12, 16, "stop"],
    ["responses", "responses/call-stream", 36, 12, 16, "tool_calls"],
  ] as const)("%s: usage and finish of %s are read", (api, name, promptTokens, outTokens, cachedTokens, reason) => {
    for (const joins of [false, true]) {
      const events = eventsOf(api, [bodyOf(name)], joins);
      expect(events[0]).toMatchObject({ type: "accepted" });
      expect(events.at(-2)).toMatchObject({ type: "finish", reason });
      expect(events.at(-1)).toMatchObject({ type: "usage", promptTokens, outTokens, cachedTokens });
    }
  });

  it.each(streams)("%s: events of %s are held until its first content, and its last events come last", (api, name) => {
    const parts = eventsOf(api, [bodyOf(name)]).flatMap((event) => (event.type === "native" ? [event] : []));
    expect(parts[0]?.text).toMatch(/^event: (message_start|response\.created)\n/);
    expect(parts[0]?.text).toMatch(/delta/);
    expect(parts.map(({ isLast }) => isLast)).toEqual(parts.map((_, i) => i === parts.length - 1));
    expect(parts.at(-1)?.text).toMatch(/event: (message_stop|response\.completed)\ndata: .*\n\n$/);
  });

  it("messages: a client that does not stream gets the message assembled from the events", () => {
    const [message] = eventsOf("messages", [bodyOf("anthropic/chat-tools-stream")], true).flatMap((event) =>
      event.type === "native" ? [JSON.parse(event.text)] : [],
    );
    expect(message).toMatchObject({
      id: "msg_01BYHAND",
      type: "message",
      role: "assistant",
      model: "our-model",
      content: [
        { type: "text", text: "I'll look it up." },
        {
          type: "tool_use",
          id: "toolu_01T1x1fJ34qAmk2tNTrN7Up6",
          name: "get_weather",
          input: { city: "San Francisco" },
        },
        { type: "tool_use", id: "toolu_02T1x1fJ34qAmk2tNTrN7Up6", name: "get_weather", input: {} },
      ],
      stop_reason: "tool_use",
      usage: { input_tokens: 472, output_tokens: 89 },
    });
    const thought = nativeText(eventsOf("messages", [bodyOf("anthropic/chat-thinking-stream")], true));
    expect(JSON.parse(thought).content[0]).toEqual({
      type: "thinking",
      thinking: "The user greets me; I greet back.\n",
      signature: "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
    });
  });

  it("responses: a client that does not stream gets the response of the last event", () => {
    const response = JSON.parse(nativeText(eventsOf("responses", [bodyOf("responses/text-stream")], true)));
    expect(response).toMatchObject({ id: "resp_01BYHAND", status: "completed", model: "our-model" });
    expect(response.output[0].content[0].text).toBe('Hello, "you" 👋');
  });

  it("the whole answer of a server that does not stream is passed on", () => {
    const events: GenEvent[] = [];
    const answer = new NativeAnswer(options("messages", true), (event) => events.push(event));
    answer.takeChunk(JSON.parse(bodyOf("anthropic/chat-unary").toString()));
    answer.end();
    expect(JSON.parse(nativeText(events))).toMatchObject({ model: "our-model", stop_reason: "tool_use" });
    expect(events.at(-1)).toMatchObject({ promptTokens: 17, outTokens: 33 });
  });

  it("errors within an answer are reported, and answers without an end are invalid", () => {
    expect(() => eventsOf("responses", [bodyOf("responses/failed-stream")])).toThrow(ReportedError);
    expect(() => eventsOf("messages", [bodyOf("anthropic/chat-overloaded-stream")])).toThrow(ReportedError);
    const answer = new NativeAnswer(options("messages", false), () => {});
    expect(() => answer.take("{")).toThrow(InvalidResponse);
    expect(() => answer.end()).toThrow(InvalidResponse);
  });
});
