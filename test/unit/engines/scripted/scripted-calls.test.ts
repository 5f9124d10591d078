import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type Message, MessageSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { answerOf, load, offers, run } from "./run-model.js";

const weather = { name: "weather", arguments: { city: "Oslo" } };
const clock = { name: "clock", arguments: '{ "zone": "UTC" }' };

const question = create(MessageSchema, { role: Role.USER, content: [{ part: { case: "text", value: "Hi" } }] });
const result = create(MessageSchema, { role: Role.TOOL, content: [{ part: { case: "text", value: "12" } }] });
const calling = (...names: readonly string[]): Message =>
  create(MessageSchema, { role: Role.ASSISTANT, toolCalls: names.map((name) => ({ function: { name } })) });

describe("scripted model: tool calls", () => {
  it("are produced if the tools are offered and the choice is auto (TOOL-10)", async () => {
    const model = await load({ text: "Hello.", tool_calls: [weather, clock] });
    const answer = answerOf(await run(model, offers(["clock", "weather"], { mode: "auto" })));
    expect(answer.calls.map(({ name, args }) => [name, args])).toEqual([
      ["weather", '{"city":"Oslo"}'],
      ["clock", '{ "zone": "UTC" }'],
    ]);
    expect(answer).toMatchObject({ text: "", reason: "tool_calls", usage: [1, 5] });
  });

  it("never name a tool that is not offered", async () => {
    const model = await load({ text: "Hello.", tool_calls: [weather, clock] });
    expect(answerOf(await run(model, offers(["clock"], { mode: "auto" }))).calls).toHaveLength(1);
    expect(answerOf(await run(model, offers(["other"], { mode: "auto" })))).toMatchObject({
      text: "Hello.",
      calls: [],
    });
    expect(answerOf(await run(model, offers([], { mode: "none" })))).toMatchObject({ text: "Hello.", calls: [] });
  });

  it("are replaced by the text after a tool's result, and produced again for the next question (E-8)", async () => {
    const model = await load({ text: "Hello.", tool_call: weather });
    const answer = async (...messages: readonly Message[]) =>
      answerOf(await run(model, offers(["weather"], { mode: "auto" }, { messages })));
    const asked = [question, calling("weather"), result];
    expect(await answer(...asked)).toMatchObject({ text: "Hello.", calls: [], reason: "stop" });
    expect((await answer(...asked, question)).calls).toHaveLength(1);
  });

  it("of each round are produced in turn, and the answer after the last round is the text", async () => {
    const model = await load({ text: "Hello.", tool_rounds: [[weather], [clock, weather]] });
    const names = async (...messages: readonly Message[]) =>
      answerOf(await run(model, offers(["weather", "clock"], { mode: "auto" }, { messages }))).calls.map(
        ({ name }) => name,
      );
    const rounds = [question, calling("weather"), result, calling("clock", "weather"), result, result];
    expect(await names(question)).toEqual(["weather"]);
    // Agents add user messages after results; they do not change the round.
    expect(await names(...rounds.slice(0, 3), question)).toEqual(["clock", "weather"]);
    expect(await names(...rounds)).toEqual([]);
  });

  it("have unique ids over all choices of all answers (TOOL-12)", async () => {
    const model = await load({ tool_calls: [weather, clock] });
    const ids: string[] = [];
    for (let i = 0; i < 20; i++) {
      const events = await run(model, offers(["clock", "weather"], { mode: "auto" }, { n: 2 }));
      for (const choice of [0, 1]) ids.push(...answerOf(events, choice).calls.map(({ id }) => id));
    }
    expect(new Set(ids).size).toBe(80);
    for (const id of ids) expect(id).toMatch(/^call_[A-Za-z0-9]{24}$/);
  });

  it("that are required or named have the configured arguments, or {} (TOOL-5, TOOL-11)", async () => {
    const model = await load({ tool_calls: [weather] });
    const called = async (...args: Parameters<typeof offers>) =>
      answerOf(await run(model, offers(...args))).calls.map(({ name, args }) => [name, args]);
    expect(await called(["weather"], { mode: "required" })).toEqual([["weather", '{"city":"Oslo"}']]);
    expect(await called(["other", "more"], { mode: "required" })).toEqual([["other", "{}"]]);
    expect(await called(["weather"], { mode: "named", name: "weather" })).toEqual([["weather", '{"city":"Oslo"}']]);
    expect(await called(["other"], { mode: "named", name: "other" })).toEqual([["other", "{}"]]);
  });

  it("without configured arguments have the arguments {} (TOOL-11, STRM-9)", async () => {
    for (const call of [{ name: "f" }, { name: "f", arguments: "" }]) {
      const answer = answerOf(await run(await load({ tool_call: call }), offers(["f"], { mode: "auto" })));
      expect(answer.calls.map(({ args }) => args)).toEqual(["{}"]);
    }
  });

  it("are at most one if parallel calls are disabled (TOOL-9)", async () => {
    const model = await load({ tool_calls: [weather, clock] });
    const request = offers(["clock", "weather"], { mode: "auto" }, { parallelToolCalls: false });
    expect(answerOf(await run(model, request)).calls).toHaveLength(1);
  });

  it("are streamed one by one, with id and name only in the first event of each (STRM-6, STRM-7, STRM-8)", async () => {
    const model = await load({ tool_calls: [clock, weather] });
    const events = await run(model, offers(["clock", "weather"], { mode: "auto" }));
    const calls = events.filter((event) => event.type === "tool");
    expect(calls.map((event) => [event.index, event.name ?? null, event.argsDelta ?? null])).toEqual([
      [0, "clock", null],
      [0, null, "{"],
      [0, null, ' "zone":'],
      [0, null, ' "UTC"'],
      [0, null, " }"],
      [1, "weather", null],
      [1, null, '{"city":"Oslo"}'],
    ]);
    expect(calls.map((event) => event.id !== undefined)).toEqual([true, false, false, false, false, true, false]);
  });

  it("that are cut have partial arguments and the finish reason length (TOOL-15)", async () => {
    const model = await load({ tool_call: clock });
    for (const deltas of ["each", "joined"] as const) {
      const answer = answerOf(await run(model, offers(["clock"], { mode: "auto" }, { maxTokens: 2, deltas })));
      expect(answer).toMatchObject({ reason: "length", usage: [1, 2] });
      expect(answer.calls.map(({ args }) => args)).toEqual(['{ "zone":']);
    }
  });
});
