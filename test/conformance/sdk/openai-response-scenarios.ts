import type {
  FunctionTool,
  Response,
  ResponseFormatTextJSONSchemaConfig,
  ResponseInputItem,
  ResponseStreamEvent,
} from "openai/resources/responses/responses";
import type { OpenAiContext } from "./openai-context.js";

const model = "org/chat:tag";
const input = "What is the capital of France?";

const weather: FunctionTool = {
  type: "function",
  name: "weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
  strict: true,
};

const placeFormat: ResponseFormatTextJSONSchemaConfig = {
  type: "json_schema",
  name: "place",
  strict: true,
  schema: {
    type: "object",
    properties: { city: { type: "string" }, mild: { type: "boolean" } },
    required: ["city", "mild"],
    additionalProperties: false,
  },
};

/** Scenarios of `/v1/responses` with plain calls and helpers. */
export const responseScenarios = {
  async response(context: OpenAiContext) {
    const response = await context.client().responses.create({ model, input });
    return { response, requestId: response._request_id ?? null };
  },

  async responseStream(context: OpenAiContext) {
    return collect(await context.client().responses.create({ model, input, stream: true }));
  },

  async responseStreamHelper(context: OpenAiContext) {
    const runner = context.client().responses.stream({ model, input });
    const deltas: string[] = [];
    runner.on("response.output_text.delta", ({ delta }) => deltas.push(delta));
    return { deltas, response: await runner.finalResponse() };
  },

  async parsedResponse(context: OpenAiContext) {
    const text = { format: placeFormat };
    const response = await context.client().responses.parse({ model: "json", input, text });
    const runner = context.client().responses.stream({ model: "json", input, text });
    // Without the parser of a schema library the helper does not parse streamed text.
    const streamed = JSON.parse((await runner.finalResponse()).output_text) as unknown;
    return { whole: response.output_parsed, streamed };
  },

  /** Sends the output items back with the results of their calls, until an answer has no calls. */
  async responseTools(context: OpenAiContext) {
    const client = context.client();
    const items: ResponseInputItem[] = [{ role: "user", content: "How is the weather in Oslo?" }];
    const calledWith: string[] = [];
    for (let round = 0; round < 5; round++) {
      const request = { model: "agent", input: items, tools: [weather] };
      // Every second request is streamed.
      const response: Response =
        round % 2 === 0
          ? await client.responses.create(request)
          : await client.responses.stream(request).finalResponse();
      items.push(...(response.output as ResponseInputItem[]));
      const calls = response.output.filter((item) => item.type === "function_call");
      if (calls.length === 0) return { answer: response.output_text, calledWith, types: items.map(typeOf) };
      for (const { call_id, arguments: args } of calls) {
        calledWith.push(args);
        items.push({ type: "function_call_output", call_id, output: '{"celsius": 12}' });
      }
    }
    throw new Error("the answers did not stop calling the tool");
  },

  async responseStreamedCalls(context: OpenAiContext) {
    const tools: FunctionTool[] = [weather, { ...weather, name: "clock" }];
    const runner = context.client().responses.stream({ model: "tools", input, tools });
    const done: string[] = [];
    runner.on("response.output_item.done", ({ item }) => {
      if (item.type === "function_call") done.push(`${item.name} ${item.arguments}`);
    });
    return { done, output: (await runner.finalResponse()).output };
  },

  async responseRefusals(context: OpenAiContext) {
    const { target, raised } = context;
    const create = (change: object, apiKey = target.key) =>
      raised(context.client({ apiKey }).responses.create({ model, input, ...change }));
    return {
      badKey: await create({}, "sk-not-a-key"),
      unknownModel: await create({ model: "nobody" }),
      badValue: await create({ temperature: 9 }),
      tooLong: await create({ input: "word ".repeat(5_000) }),
    };
  },

  /** The errors of the iterated stream and of the helper, with an engine that fails after some text. */
  async responseDeathInStream(context: OpenAiContext) {
    const params = { model: "dies-late", input } as const;
    let text = "";
    const iterate = async () => {
      for await (const event of await context.client().responses.create({ ...params, stream: true })) {
        if (event.type === "response.output_text.delta") text += event.delta;
      }
    };
    const iterated = await context.raised(iterate());
    return { text, iterated, helped: await context.raised(context.client().responses.stream(params).finalResponse()) };
  },
};

function typeOf(item: ResponseInputItem): string {
  return item.type ?? "message";
}

async function collect(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}
