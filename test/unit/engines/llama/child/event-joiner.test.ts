import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../../src/domain/engine/engine.js";
import { EventJoiner } from "../../../../../src/engines/llama/child/event-batch.js";

function joined(events: readonly GenEvent[]): readonly GenEvent[] {
  const sent: GenEvent[] = [];
  const joiner = new EventJoiner((event) => sent.push(event));
  for (const event of events) joiner.push(event);
  return sent;
}

const text = (outTokens: number): GenEvent => ({ type: "text", choice: 0, text: `${outTokens} `, outTokens });

describe("EventJoiner", () => {
  it("joins text until another kind of event follows, with the token count of the last part", () => {
    const finish: GenEvent = { type: "finish", choice: 0, reason: "stop", outTokens: 3 };
    expect(joined([text(1), text(2), text(3), finish])).toEqual([
      { type: "text", choice: 0, text: "1 2 3 ", outTokens: 3 },
      finish,
    ]);
  });

  it("sends joined text every 64 tokens", () => {
    const sent = joined(Array.from({ length: 130 }, (_, i) => text(i + 1)));
    expect(sent.map((event) => (event.type === "text" ? event.outTokens : 0))).toEqual([64, 128]);
  });

  it("sends joined log probabilities every 64 positions, also those of a prompt (E-7)", () => {
    const position = { token: "a", logprob: -1, top: [] };
    const ofPrompt: GenEvent = { type: "text", choice: 0, text: "a", outTokens: 0, logprobs: [position, position] };
    const sent = joined(Array.from({ length: 70 }, () => ofPrompt));
    const counts = sent.map((event) => (event.type === "text" ? (event.logprobs?.length ?? 0) : 0));
    expect(counts).toEqual([64, 64]);
  });

  it("joins the arguments of one call, and keeps calls separate", () => {
    const call = (index: number, outTokens: number, fields: object): GenEvent => ({
      type: "tool",
      choice: 0,
      index,
      outTokens,
      ...fields,
    });
    const end: GenEvent = { type: "finish", choice: 0, reason: "tool_calls", outTokens: 5 };
    const sent = joined([
      call(0, 1, { id: "a", name: "f" }),
      call(0, 2, { argsDelta: "{" }),
      call(0, 3, { argsDelta: "}" }),
      call(1, 4, { id: "b", name: "g" }),
      call(1, 5, { argsDelta: "{}" }),
      end,
    ]);
    expect(sent).toEqual([
      call(0, 3, { id: "a", name: "f", argsDelta: "{}" }),
      call(1, 5, { id: "b", name: "g", argsDelta: "{}" }),
      end,
    ]);
  });

  it("sends events without text immediately", () => {
    const accepted: GenEvent = { type: "accepted", promptTokens: 1, cachedTokens: 0 };
    expect(joined([accepted])).toEqual([accepted]);
  });
});
