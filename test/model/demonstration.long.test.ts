import { mkdirSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ChatAnswer, post, user } from "../support/model-client.js";
import { type ModelService, smallChatModel, startModelService } from "../support/model-service.js";

let service: ModelService;

beforeAll(async () => {
  service = await startModelService({ kind: "chat", hasDefaults: true });
});

afterAll(() => service?.close());

const openings = ["hi", "Hi!", "hello there", "hey", "thanks", "ok", "test", "?", "How are you?", "Who are you?"];
const countries = ["France", "Japan", "Italy", "Spain", "Egypt", "Peru", "India", "Kenya", "Norway", "Canada"];
const topics = ["photosynthesis", "gravity", "rain", "inflation", "music", "chess", "bread", "the moon", "love", "DNA"];
const tasks = ["Write a poem about", "Explain", "Tell me a story about", "List ten facts about"];

/** One hundred prompts as people type them first. */
const prompts = [
  ...openings,
  ...countries.map((country) => `What is the capital of ${country}?`),
  ...countries.map((country, i) => `What is ${i + 3} + ${i + 5}? And where is ${country}?`),
  ...tasks.flatMap((task) => topics.map((topic) => `${task} ${topic}.`)),
  ...topics.map((topic) => `Is ${topic} good or bad?`),
  ...countries.map((country) => `Tell me a joke from ${country}`),
  ...["Tell me everything you know.", "Count to one thousand.", "Repeat the word yes forever.", "Write a novel."],
  ...[
    "What is the meaning of life?",
    "Translate 'good morning' to Spanish.",
    "Name three colours.",
    "a",
    "...",
    "Why?",
  ],
];

const { maxTokens: cap } = smallChatModel().defaults;
/** Maximum median duration: five times the target, because the machine may be busy. */
const medianWithinMs = 5 * 3_000;

async function answerTo(fields: object): Promise<ChatAnswer> {
  const response = await post(service, "/chat/completions", fields);
  expect(response.status).toBe(200);
  return (await response.json()) as ChatAnswer;
}

describe("the demonstration model with its defaults", () => {
  it("ends each of 100 answers within its token limit, half of them within seconds", {
    timeout: 1_800_000,
  }, async () => {
    expect(prompts).toHaveLength(100);
    const durations: number[] = [];
    let stopped = 0;
    for (const [i, prompt] of prompts.entries()) {
      const system = i % 10 === 9 ? [{ role: "system", content: "" }] : [];
      const startedAtMs = performance.now();
      const { choices, usage } = await answerTo({ messages: [...system, user(prompt)] });
      durations.push(performance.now() - startedAtMs);
      expect(usage.completion_tokens, prompt).toBeLessThanOrEqual(cap ?? 0);
      const [choice] = choices;
      expect(choice?.finish_reason === "stop" || usage.completion_tokens === cap, prompt).toBe(true);
      if (choice?.finish_reason === "stop") stopped += 1;
    }
    const sorted = durations.sort((a, b) => a - b).map(Math.round);
    const figures = { medianMs: sorted[50], p95Ms: sorted[95], longestMs: sorted.at(-1), endedByThemselves: stopped };
    mkdirSync("test-results/figures", { recursive: true });
    writeFileSync("test-results/figures/demonstration.json", `${JSON.stringify(figures, null, 2)}\n`);
    expect(stopped, JSON.stringify(figures)).toBeGreaterThanOrEqual(50);
    expect(figures.medianMs).toBeLessThan(medianWithinMs);
  });

  it("ends a required call before the token limit, even with free texts in its arguments (TOOL-5)", async () => {
    const parameters = {
      type: "object",
      properties: { city: { type: "string" }, note: { type: "string" } },
      required: ["city"],
    };
    const tool = { type: "function", function: { name: "get_weather", description: "Weather of a city", parameters } };
    for (const prompt of ["What is the weather in Paris?", "hi", "Book a table.", "Tell me a long story."]) {
      const { choices, usage } = await answerTo({ messages: [user(prompt)], tools: [tool], tool_choice: "required" });
      expect(choices[0]?.finish_reason, prompt).toBe("tool_calls");
      expect(choices[0]?.message.tool_calls, prompt).toHaveLength(1);
      expect(usage.completion_tokens).toBeLessThan(cap ?? 0);
      expect(() => JSON.parse(choices[0]?.message.tool_calls?.[0]?.function.arguments ?? "")).not.toThrow();
    }
  });
});
