import { describe, expect, it } from "vitest";
import {
  emptyAnswer,
  isEmpty,
  type Message,
  similarity,
  toolMessage,
  userMessage,
  vectorOf,
  withChunk,
} from "../../../src/dashboard/pages/playground/answers.js";
import {
  chatRequest,
  completionRequest,
  embeddingRequest,
  noSettings,
} from "../../../src/dashboard/pages/playground/requests.js";
import { speedOf } from "../../../src/dashboard/pages/playground/run.js";

const tool = { type: "function", function: { name: "weather", parameters: { type: "object" } } } as const;

describe("streamed chunks", () => {
  it("become text, reasoning and tool calls", () => {
    const deltas = [
      { role: "ROLE_ASSISTANT", reasoningContent: "Hm" },
      { content: "It " },
      { content: "is" },
      { toolCalls: [{ index: 0, id: "call_1", name: "weather", argumentsJson: '{"a"' }] },
      { toolCalls: [{ index: 0, argumentsJson: ":1}" }] },
      { toolCalls: [{ index: 1, id: "call_2", name: "time" }] },
    ] as const;
    const turn = deltas.reduce<Message>(
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
      isTruncated: false,
    });
  });

  it("count as an answer if they contain only reasoning, and mark a truncated answer", () => {
    const answer = [{ delta: { reasoningContent: "Hm" } }, { delta: {}, finishReason: "length" }].reduce<Message>(
      (before, choice) => withChunk(before, { choices: [choice] }),
      emptyAnswer,
    );
    expect(answer).toMatchObject({ text: "", reasoning: "Hm", isTruncated: true });
    expect([isEmpty(answer), isEmpty(emptyAnswer)]).toEqual([false, true]);
    expect(withChunk(emptyAnswer, { choices: [{ delta: {}, finishReason: "stop" }] }).isTruncated).toBe(false);
  });

  it("with usage only leave the message unchanged", () => {
    expect(withChunk(emptyAnswer, { usage: { completionTokens: 3 } })).toBe(emptyAnswer);
  });
});

describe("requests of the playground", () => {
  it("leave out empty settings", () => {
    const { params } = chatRequest("m", { ...noSettings, maxTokens: "" }, [userMessage("Hi")]);
    expect(params).toEqual({ model: "m", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] });
  });

  it("are equivalent in the contract's and OpenAI's format", () => {
    const call = { id: "call_1", name: "weather", argumentsJson: "{}" };
    const settings = {
      system: "Be short.",
      temperature: "0.5",
      topP: "0.9",
      maxTokens: "7",
      frequencyPenalty: "-1",
      presencePenalty: "",
      seed: "42",
      stop: "END\n\nStop",
      tools: JSON.stringify([tool]),
    };
    const turns = [userMessage("Hi"), { ...emptyAnswer, calls: [call] }, toolMessage("call_1", "Rain")];
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
      frequencyPenalty: -1,
      seed: "42",
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
      frequency_penalty: -1,
      seed: 42,
      stop: ["END", "Stop"],
      tools: [tool],
      stream: true,
    });
  });

  it("name an invalid setting", () => {
    expect(() => completionRequest("m", { ...noSettings, temperature: "warm" }, "x")).toThrow(
      "Temperature must be a number.",
    );
    expect(() => completionRequest("m", { ...noSettings, seed: "1.5" }, "x")).toThrow("Seed must be a whole number.");
    expect(() => chatRequest("m", { ...noSettings, tools: "{" }, [])).toThrow("Tools are not valid JSON");
    expect(() => chatRequest("m", { ...noSettings, tools: "[{}]" }, [])).toThrow("Tools must be a JSON array");
  });

  it("embed each line that is not empty", () => {
    expect(embeddingRequest("m", "one\n\n two \n").params).toEqual({ model: "m", input: ["one", " two "] });
  });
});

describe("the speed of an answer", () => {
  it("is measured from the first token on", () => {
    expect(speedOf({ startMs: 0, firstMs: 500, endMs: 2_500, tokens: 21 })).toEqual({
      totalMs: 2_500,
      firstTokenMs: 500,
      tokens: 21,
      tokensPerSecond: 10,
    });
  });

  it("is unknown without a second token", () => {
    expect(speedOf({ startMs: 0, firstMs: null, endMs: 10, tokens: 0 }).tokensPerSecond).toBeNull();
    expect(speedOf({ startMs: 0, firstMs: 5, endMs: 10, tokens: 1 }).tokensPerSecond).toBeNull();
  });
});

describe("vectors", () => {
  it("are decoded from little-endian float32 and compared by cosine similarity", () => {
    const bytes = Buffer.alloc(8);
    bytes.writeFloatLE(0.5, 0);
    bytes.writeFloatLE(-2, 4);
    expect(vectorOf(bytes.toString("base64"))).toEqual([0.5, -2]);
    expect(similarity([1, 0], [2, 0])).toBe(1);
    expect(similarity([1, 0], [0, 3])).toBe(0);
    expect(similarity([0, 0], [0, 3])).toBe(0);
  });
});
