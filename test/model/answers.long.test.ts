import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat, complete, streamChat, user } from "../support/model-client.js";
import { type ModelService, startModelService } from "../support/model-service.js";

const slots = 4;
let service: ModelService;

beforeAll(async () => {
  service = await startModelService({ kind: "chat", slots });
});

afterAll(() => service?.close());

describe("answers of the real chat model", () => {
  it("are streamed English text with the result of 7 + 5, and end with the finish reason stop", async () => {
    const { text, finishReason, usage, last } = await streamChat(service, { messages: [user("What is 7 + 5?")] });
    expect(text).toContain("12");
    expect(text).toMatch(/^[\x20-\x7e\n]+$/);
    expect(finishReason).toBe("stop");
    expect(usage?.completion_tokens).toBeGreaterThan(1);
    expect(last).toBe("[DONE]");
  });

  it("count the prompt once and the tokens of all choices, and are the same when streamed (CHAT-3)", async () => {
    const asked = { messages: [user("What is 7 + 5?")], max_tokens: 12 };
    const one = await chat(service, asked);
    const two = await chat(service, { ...asked, n: 2 });
    const streamed = await streamChat(service, asked);
    expect(two.choices.map(({ message }) => message)).toEqual([one.choices[0]?.message, one.choices[0]?.message]);
    expect(two.usage.prompt_tokens).toBe(one.usage.prompt_tokens);
    expect(two.usage.completion_tokens).toBe(2 * one.usage.completion_tokens);
    expect(streamed.text).toBe(one.choices[0]?.message.content);
    expect(streamed.usage?.completion_tokens).toBe(one.usage.completion_tokens);
  });

  it("are the same in a batch as alone: calls that are evaluated together do not affect each other", async () => {
    const prompts = ["What is 7 + 5?", "Name three colours, one after the other.", "Hi", "Where is the city of Paris?"];
    const ask = async (prompt: string) => {
      const { choices } = await chat(service, { messages: [user(prompt)], max_tokens: 24 });
      return choices[0]?.message.content;
    };
    const alone: unknown[] = [];
    for (const prompt of prompts) alone.push(await ask(prompt));
    for (let round = 0; round < 8; round++) expect(await Promise.all(prompts.map(ask))).toEqual(alone);
  });

  it("finish with `length` after exactly the requested number of tokens", async () => {
    const { choices, usage } = await chat(service, { messages: [user("Tell me a long story.")], max_tokens: 16 });
    expect(choices[0]?.finish_reason).toBe("length");
    expect(usage.completion_tokens).toBe(16);
  });

  it("end before a stop string (CHAT-8)", async () => {
    const asked = { messages: [user("Count from 1 to 9 with commas.")], max_tokens: 40 };
    const whole = (await chat(service, asked)).choices[0]?.message.content ?? "";
    const stop = whole.slice(10, 14);
    const { choices } = await chat(service, { ...asked, stop });
    expect(choices).toMatchObject([
      { finish_reason: "stop", message: { content: whole.slice(0, whole.indexOf(stop)) } },
    ]);
  });

  it("are repeated for the same seed, and differ for another seed (CHAT-9)", async () => {
    const sampled = async (seed: number): Promise<string | null | undefined> => {
      const asked = { messages: [user("Tell me a short story.")], max_tokens: 24, temperature: 0.8, seed };
      return (await chat(service, asked)).choices[0]?.message.content;
    };
    const first = await sampled(5);
    expect(await sampled(5)).toBe(first);
    expect(await sampled(6)).not.toBe(first);
  });

  it("reuse the tokens of the first turn in the second turn, and are the same as without reuse", async () => {
    const first = { messages: [user("What is 7 + 5?")], max_tokens: 24 };
    const { choices, usage } = await chat(service, first);
    const said = { role: "assistant", content: choices[0]?.message.content };
    const second = { messages: [...first.messages, said, user("And 2 + 2?")], max_tokens: 16 };
    const warm = await chat(service, second);
    expect(warm.usage.prompt_tokens_details?.cached_tokens).toBeGreaterThanOrEqual(usage.prompt_tokens);
    // No conversation begins with this text, so each request takes the least recently used slot.
    for (let slot = 0; slot < slots; slot++) await complete(service, { prompt: "cold", max_tokens: 1 });
    const cold = await chat(service, second);
    expect(cold.usage.prompt_tokens_details?.cached_tokens).toBe(0);
    expect(cold.choices).toEqual(warm.choices);
  });
});
