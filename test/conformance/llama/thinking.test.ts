import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatMl } from "../../support/gguf/llama-gguf.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { hermesTemplate } from "../../unit/engines/llama/text/templates.js";
import { type Api, createApi, expectError } from "../openai/api.js";
import { type ChatAnswer, streamedAnswer, streaming, wholeAnswer } from "./chat-answer.js";

const thoughts = "Let me see: 6 x 7 …";
const answer = "It makes 42 日本.";
/** A template that opens the reasoning itself if the caller requests it. */
const openingTemplate = `${chatMl}{% if enable_thinking %}<think>\n{% endif %}`;
/** Text of the Hermes template for disabled thinking. The vocabulary lacks its words, so it has one token per byte. */
const noThoughts = "<think>\n\n</think>\n\n";

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  service = await startLlamaService([
    {
      id: "thinks",
      write: (path) =>
        writeScriptedGguf(path, {
          text: `<think>\n${thoughts}\n</think>\n${answer}`,
          chatTemplate: hermesTemplate,
        }),
    },
    {
      id: "opened",
      write: (path) =>
        writeScriptedGguf(path, { text: `${thoughts}\n</think>\n${answer}`, chatTemplate: openingTemplate }),
    },
    { id: "plain", write: (path) => writeScriptedGguf(path, { text: `<think> ${answer}` }) },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

async function both(fields: object): Promise<readonly ChatAnswer[]> {
  return [wholeAnswer(await api.chat(fields)), streamedAnswer(await api.chat({ ...fields, ...streaming }))];
}

describe("a model with reasoning", () => {
  it("returns reasoning in reasoning_content and not in content, and counts its tokens in the usage (RESP-12)", async () => {
    for (const told of await both({ model: "thinks", reasoning_effort: "medium" })) {
      expect(told).toMatchObject({ reasoning: thoughts, content: answer, finishReason: "stop" });
      const { completion_tokens, completion_tokens_details } = told.usage;
      expect(completion_tokens_details.reasoning_tokens).toBeGreaterThan(0);
      expect(completion_tokens_details.reasoning_tokens).toBeLessThan(completion_tokens);
    }
  });

  it("returns reasoning that the template opened, and finishes with length within the reasoning (RESP-12)", async () => {
    for (const told of await both({ model: "opened", reasoning_effort: "high" })) {
      expect(told).toMatchObject({ reasoning: thoughts, content: answer, finishReason: "stop" });
    }
    for (const told of await both({ model: "opened", reasoning_effort: "high", max_tokens: 3 })) {
      expect(told).toMatchObject({ reasoning: "Let me see:", content: "", finishReason: "length" });
    }
  });

  it("reasons if reasoning_effort requests it, but not without reasoning_effort or at none or minimal (CHAT-24)", async () => {
    const promptTokens = async (fields: object): Promise<number> =>
      wholeAnswer(await api.chat({ model: "thinks", ...fields })).usage.prompt_tokens;
    const thinking = await promptTokens({ reasoning_effort: "low" });
    for (const reasoning_effort of ["medium", "high", "xhigh", "max"]) {
      expect(await promptTokens({ reasoning_effort })).toBe(thinking);
    }
    for (const fields of [
      {},
      { reasoning_effort: null },
      { reasoning_effort: "none" },
      { reasoning_effort: "minimal" },
    ]) {
      expect(await promptTokens(fields)).toBe(thinking + noThoughts.length);
    }
    for (const told of await both({ model: "opened", reasoning_effort: "none" })) {
      // The script continues as if reasoning had been requested, so its text is the answer.
      expect(told).toMatchObject({ reasoning: "", content: `${thoughts}\n</think>\n${answer}` });
    }
  });

  it("reasons if chat_template_kwargs request it (CHAT-28)", async () => {
    const chat_template_kwargs = { enable_thinking: true };
    for (const told of await both({ model: "opened", chat_template_kwargs })) expect(told.reasoning).toBe(thoughts);
  });
});

describe("a model without reasoning", () => {
  it("gives the same answer for every reasoning_effort, and rejects an unknown value (CHAT-24)", async () => {
    const [without] = await both({ model: "plain" });
    for (const reasoning_effort of ["none", "high"]) {
      for (const told of await both({ model: "plain", reasoning_effort })) {
        expect(told).toMatchObject({ reasoning: "", content: `<think> ${answer}` });
        expect(told.usage.prompt_tokens).toBe(without?.usage.prompt_tokens);
      }
    }
    expectError(
      await api.chat({ model: "plain", reasoning_effort: "a lot" }),
      400,
      "invalid_value",
      "reasoning_effort",
    );
  });
});
