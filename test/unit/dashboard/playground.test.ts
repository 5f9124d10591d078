import { describe, expect, it } from "vitest";
import { chatRequest, completionRequest, embeddingRequest } from "../../../src/dashboard/pages/playground/requests.js";
import { speedOf } from "../../../src/dashboard/pages/playground/run.js";
import { noSettings } from "../../../src/dashboard/pages/playground/settings.js";
import {
  emptyAnswer,
  isEmpty,
  type Turn,
  toolTurn,
  userTurn,
  withChunk,
} from "../../../src/dashboard/pages/playground/transcript.js";
import { similarity, vectorOf } from "../../../src/dashboard/pages/playground/vectors.js";

const tool = { type: "function", function: { name: "weather", parameters: { type: "object" } } } as const;

describe("the pieces of an answer", () => {
  it("become text, reasoning and calls", () => {
    const deltas = [
      { role: "ROLE_ASSISTANT", reasoningContent: "Hm" },
      { content: "It " },
      { content: "is" },
      { toolCalls: [{ index: 0, id: "call_1", name: "weather", argumentsJson: '{"a"' }] },
      { toolCalls: [{ index: 0, argumentsJson: ":1}" }] },
      { toolCalls: [{ index: 1, id: "call_2", name: "time" }] },
    ] as const;
    const turn = deltas.reduce<Turn>(
      (before, { ...delta }) => withChunk(before, JSON.parse(JSON.stringify({ choices: [{ delta }] }))),
      emptyAnswer,
    );
    expect(turn).toEqual({
      role: "assistant",
      text: "It is",
      reasoning: "Hm",
      calls: [
        { id: "call_1", name: "weather", argumentsJson: '{"a":1}' },
        { id: "call_2", name: "time", argumentsJson: "" },
      ],
      callId: "",
      isCut: false,
    });
  });

  it("count as an answer when all of it was reasoning, and say that the limit has cut it", () => {
    const answer = [{ delta: { reasoningContent: "Hm" } }, { delta: {}, finishReason: "length" }].reduce<Turn>(
      (before, choice) => withChunk(before, { choices: [choice] }),
      emptyAnswer,
    );
    expect(answer).toMatchObject({ text: "", reasoning: "Hm", isCut: true });
    expect([isEmpty(answer), isEmpty(emptyAnswer)]).toEqual([false, true]);
    expect(withChunk(emptyAnswer, { choices: [{ delta: {}, finishReason: "stop" }] }).isCut).toBe(false);
  });

  it("of the usage alone change nothing", () => {
    expect(withChunk(emptyAnswer, { usage: { completionTokens: 3 } })).toBe(emptyAnswer);
  });
});

describe("what the playground asks", () => {
  it("leaves out what was not typed", () => {
    const { params } = chatRequest("m", { ...noSettings, maxTokens: "" }, [userTurn("Hi")]);
    expect(params).toEqual({ model: "m", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] });
  });

  it("is the same in the form of the contract and in OpenAI's", () => {
    const call = { id: "call_1", name: "weather", argumentsJson: "{}" };
    const settings = {
      system: "Be short.",
      temperature: "0.5",
      topP: "0.9",
      maxTokens: "7",
      stop: "END\n\nStop",
      tools: JSON.stringify([tool]),
    };
    const turns = [userTurn("Hi"), { ...emptyAnswer, calls: [call] }, toolTurn("call_1", "Rain")];
    const { params, openai } = chatRequest("m", settings, turns);
    expect(params).toEqual({
      model: "m",
      messages: [
        { role: "ROLE_SYSTEM", content: [{ text: "Be short." }] },
        { role: "ROLE_USER", content: [{ text: "Hi" }] },
        { role: "ROLE_ASSISTANT", toolCalls: [{ id: "call_1", function: { name: "weather", argumentsJson: "{}" } }] },
        { role: "ROLE_TOOL", content: [{ text: "Rain" }], toolCallId: "call_1" },
      ],
      temperature: 0.5,
      topP: 0.9,
      maxTokens: 7,
      stop: ["END", "Stop"],
      tools: [{ function: { name: "weather", parametersJson: '{"type":"object"}' } }],
    });
    expect(openai).toEqual({
      model: "m",
      messages: [
        { role: "system", content: "Be short." },
        { role: "user", content: "Hi" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } }],
        },
        { role: "tool", content: "Rain", tool_call_id: "call_1" },
      ],
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 7,
      stop: ["END", "Stop"],
      tools: [tool],
      stream: true,
    });
  });

  it("says which setting cannot be read", () => {
    expect(() => completionRequest("m", { ...noSettings, temperature: "warm" }, "x")).toThrow(
      "Temperature is a number.",
    );
    expect(() => chatRequest("m", { ...noSettings, tools: "{" }, [])).toThrow("The tools are not JSON");
    expect(() => chatRequest("m", { ...noSettings, tools: "[{}]" }, [])).toThrow("Tools are a JSON list");
  });

  it("takes each line as a text to embed", () => {
    expect(embeddingRequest("m", "one\n\n two \n").params).toEqual({ model: "m", input: ["one", " two "] });
  });
});

describe("how fast an answer was", () => {
  it("counts the rate from the first token on", () => {
    expect(speedOf({ startMs: 0, firstMs: 500, endMs: 2_500, tokens: 21 })).toEqual({
      totalMs: 2_500,
      firstTokenMs: 500,
      tokens: 21,
      tokensPerSecond: 10,
    });
  });

  it("has no rate without a second token", () => {
    expect(speedOf({ startMs: 0, firstMs: null, endMs: 10, tokens: 0 }).tokensPerSecond).toBeNull();
    expect(speedOf({ startMs: 0, firstMs: 5, endMs: 10, tokens: 1 }).tokensPerSecond).toBeNull();
  });
});

describe("vectors", () => {
  it("are read as little-endian float32 and compared by direction", () => {
    const bytes = Buffer.alloc(8);
    bytes.writeFloatLE(0.5, 0);
    bytes.writeFloatLE(-2, 4);
    expect(vectorOf(bytes.toString("base64"))).toEqual([0.5, -2]);
    expect(similarity([1, 0], [2, 0])).toBe(1);
    expect(similarity([1, 0], [0, 3])).toBe(0);
    expect(similarity([0, 0], [0, 3])).toBe(0);
  });
});
