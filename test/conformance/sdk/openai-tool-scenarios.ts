import type { JSONSchema } from "openai/lib/jsonschema";
import type { RunnableToolFunctionWithParse } from "openai/lib/RunnableFunction";
import type { ChatCompletionFunctionTool, ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { OpenAiContext } from "./openai-context.js";

const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "How is the weather in Oslo?" }];

const citySchema: JSONSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools: ChatCompletionFunctionTool[] = [
  { type: "function", function: { name: "weather", parameters: { ...citySchema } } },
  { type: "function", function: { name: "clock" } },
];

/** The tool in the form that `runTools` needs, which includes its function. */
function runnableWeather(asked: string[]): RunnableToolFunctionWithParse<{ city: string }> {
  return {
    type: "function",
    function: {
      name: "weather",
      description: "The weather of a city.",
      parameters: citySchema,
      parse: (text) => JSON.parse(text) as { city: string },
      function({ city }) {
        asked.push(city);
        return { celsius: 12 };
      },
    },
  };
}

export const toolScenarios = {
  async calls(context: OpenAiContext) {
    return (await context.client().chat.completions.create({ model: "tools", messages, tools })).choices;
  },

  async streamedCalls(context: OpenAiContext) {
    const params = { model: "tools", messages, tools, stream: true } as const;
    const deltas = [];
    for await (const { choices } of await context.client().chat.completions.create(params)) deltas.push(...choices);
    return deltas;
  },

  async streamedCallsByHelper(context: OpenAiContext) {
    const runner = context.client().chat.completions.stream({ model: "tools", messages, tools });
    const done: string[] = [];
    runner.on("tool_calls.function.arguments.done", ({ name, index }) => done.push(`${index} ${name}`));
    return { done, choices: (await runner.finalChatCompletion()).choices };
  },

  async runTools(context: OpenAiContext) {
    const asked: string[] = [];
    const tools = [runnableWeather(asked)];
    const runner = context.client().chat.completions.runTools({ model: "agent", messages, tools });
    return { answer: await runner.finalContent(), asked, roles: runner.messages.map(({ role }) => role) };
  },

  async runToolsStreaming(context: OpenAiContext) {
    const asked: string[] = [];
    const tools = [runnableWeather(asked)];
    const params = { model: "agent", messages, tools, stream: true } as const;
    const runner = context.client().chat.completions.runTools(params);
    return { answer: await runner.finalContent(), asked, roles: runner.messages.map(({ role }) => role) };
  },
};
