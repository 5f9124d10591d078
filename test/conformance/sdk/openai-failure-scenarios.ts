import type { ClientOptions } from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { OpenAiContext } from "./openai-context.js";

const model = "org/chat:tag";
const ask = (content: string): ChatCompletionMessageParam[] => [{ role: "user", content }];
const messages = ask("Hi");

/** Scenarios of errors: which classes the SDK raises, and how often it retries. */
export const failureScenarios = {
  async refusals(context: OpenAiContext) {
    const chat = (change: object, options: ClientOptions = {}) =>
      context.raised(context.client(options).chat.completions.create({ model, messages, ...change }));
    return {
      badKey: await chat({}, { apiKey: "sk-not-a-key" }),
      readKey: await chat({}, { apiKey: context.target.readKey }),
      unknownModel: await chat({ model: "nobody" }),
      badValue: await chat({ temperature: 9 }),
      badType: await chat({ messages: [{ role: "user", content: 5 }] }),
      embeddingModel: await chat({ model: "vectors" }),
      tooLarge: await chat({ messages: ask("x".repeat(70_000)) }),
      tooLong: await chat({ messages: ask("word ".repeat(5_000)) }),
      unknownRoute: await context.raised(context.client().get("/nothing")),
    };
  },

  /** A second request for a model without a queue, whose only slot is busy. */
  async fullQueue(context: OpenAiContext) {
    const { completions } = context.client().chat;
    const holder = await completions.create({ model: "one-slot", messages, stream: true });
    await holder[Symbol.asyncIterator]().next();
    const error = await context.raised(completions.create({ model: "one-slot", messages }));
    holder.controller.abort();
    return error;
  },

  /** Number of HTTP requests per call, with the SDK's default of two retries. */
  async attempts(context: OpenAiContext) {
    const attempts = async (change: object, options: ClientOptions = {}) => {
      const counting = context.counting({ maxRetries: 2, ...options });
      const outcome = await counting.client.chat.completions
        .create({ model, messages, ...change })
        .then(() => "answered")
        .catch((error: { status?: number }) => error.status);
      return { outcome, attempts: counting.attempts() };
    };
    const [failsOnce, failsAlways, badValue, badKey, readKey, unknownModel, tooLarge] = await Promise.all([
      attempts({ model: "fails-once" }),
      attempts({ model: "fails-always" }),
      attempts({ temperature: 9 }),
      attempts({}, { apiKey: "sk-not-a-key" }),
      attempts({}, { apiKey: context.target.readKey }),
      attempts({ model: "nobody" }),
      attempts({ messages: ask("x".repeat(70_000)) }),
    ]);
    return { failsOnce, failsAlways, badValue, badKey, readKey, unknownModel, tooLarge };
  },

  /** A stream whose engine fails after two tokens, read through the plain iterator and through the helper. */
  async deathInStream(context: OpenAiContext) {
    const { completions } = context.client().chat;
    let text = "";
    const stream = await completions.create({ model: "dies-late", messages, stream: true });
    const read = async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    };
    const iterated = await context.raised(read());
    const helped = await context.raised(completions.stream({ model: "dies-late", messages }).finalChatCompletion());
    return { text, iterated, helped };
  },
};
