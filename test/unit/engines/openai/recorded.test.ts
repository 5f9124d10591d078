import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { GenEvent, GenerateRequest } from "../../../../src/domain/engine/engine.js";
import { AnswerEvents } from "../../../../src/engines/openai/answer/answer-events.js";
import { SseReader } from "../../../../src/engines/openai/answer/sse-reader.js";
import { InvalidResponse } from "../../../../src/engines/openai/protocol/upstream-failure.js";
import { byTier } from "../../../support/tier.js";
import { answerOptions } from "../../../support/upstream/answer-options.js";
import { chatRequest } from "../../../support/upstream/engine-calls.js";
import {
  eventsText,
  recordedAnswer,
  recordedFolder,
  recordedGenerations,
} from "../../../support/upstream/recorded-answers.js";

/** The events of an answer whose body arrives in these reads. */
function eventsOf(request: GenerateRequest, reads: readonly Buffer[], isStream: boolean): readonly GenEvent[] {
  const events: GenEvent[] = [];
  const answer = new AnswerEvents(answerOptions(request), (event) => events.push(event));
  if (!isStream) {
    answer.takeChunk(JSON.parse(Buffer.concat(reads).toString()));
    answer.end();
    return events;
  }
  const reader = new SseReader();
  const drain = (): void => {
    for (let data = reader.next(); data !== null; data = reader.next()) {
      if (data === "[DONE]") answer.end();
      else answer.take(data);
    }
  };
  for (const read of reads) {
    reader.push(read);
    drain();
  }
  reader.end();
  drain();
  return events;
}

describe("recorded answers of real servers", () => {
  const cases = Object.entries(recordedGenerations);

  it.each(cases)("%s becomes the events of its golden file", async (name, request) => {
    const { body, headers } = recordedAnswer(name);
    const isStream = headers["content-type"]?.startsWith("text/event-stream") === true;
    const events = eventsOf(request, [body], isStream);
    await expect(eventsText(events)).toMatchFileSnapshot(join(recordedFolder, `${name}.events.json`));
  });

  const streams = cases.filter(([name]) => !/unary|logprobs$/.test(name));

  it.each(streams)("%s gives the same events wherever its bytes are split", (name, request) => {
    const { body } = recordedAnswer(name);
    const whole = eventsText(eventsOf(request, [body], true));
    const step = byTier({ ci: body.length > 8_000 ? 7 : 1, long: 1 });
    for (let at = 1; at < body.length; at += step) {
      const split = eventsText(eventsOf(request, [body.subarray(0, at), body.subarray(at)], true));
      if (split !== whole) expect(split, `split at byte ${at}`).toBe(whole);
    }
    const bytes = Array.from(body, (_, at) => body.subarray(at, at + 1));
    expect(eventsText(eventsOf(request, bytes, true))).toBe(whole);
  });

  it("a forced tool call that llama.cpp did not make is an error before any content", () => {
    const { body } = recordedAnswer("llama-server-tools/chat-tools-required-stream");
    const events: GenEvent[] = [];
    const answer = new AnswerEvents(answerOptions(chatRequest({ tool: { mode: "required" } })), (event) =>
      events.push(event),
    );
    const reader = new SseReader();
    reader.push(body);
    const read = (): void => {
      for (let data = reader.next(); data !== null; data = reader.next()) answer.take(data);
    };
    expect(read).toThrow(InvalidResponse);
    expect(events.map(({ type }) => type)).toEqual(["accepted"]);
  });
});
