import type { ChatCompletionChunk, ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { OpenAiContext } from "./openai-context.js";

const model = "org/chat:tag";
const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "What is the capital of France?" }];

const placeFormat = {
  type: "json_schema",
  json_schema: {
    name: "place",
    schema: {
      type: "object",
      properties: { city: { type: "string" }, mild: { type: "boolean" } },
      required: ["city", "mild"],
    },
  },
} as const;

/** Chat scenarios with plain calls and helpers. Results are plain values that can be sent to another process. */
export const chatScenarios = {
  async create(context: OpenAiContext) {
    const completion = await context.client().chat.completions.create({ model, messages });
    return { completion, requestId: completion._request_id ?? null };
  },

  async stream(context: OpenAiContext) {
    return collect(await context.client().chat.completions.create({ model, messages, stream: true }));
  },

  async streamWithUsage(context: OpenAiContext) {
    const params = { model, messages, stream: true, stream_options: { include_usage: true } } as const;
    return collect(await context.client().chat.completions.create(params));
  },

  async streamTwoChoices(context: OpenAiContext) {
    return collect(await context.client().chat.completions.create({ model, messages, n: 2, stream: true }));
  },

  async streamHelper(context: OpenAiContext) {
    const runner = context.client().chat.completions.stream({ model, messages });
    const deltas: string[] = [];
    runner.on("content", (delta) => deltas.push(delta));
    return { completion: await runner.finalChatCompletion(), deltas };
  },

  async parse(context: OpenAiContext) {
    const params = { model: "json", messages, response_format: placeFormat };
    const completion = await context.client().chat.completions.parse(params);
    return { parsed: completion.choices[0]?.message.parsed };
  },

  async parseStream(context: OpenAiContext) {
    const runner = context.client().chat.completions.stream({ model: "json", messages, response_format: placeFormat });
    const deltas: string[] = [];
    runner.on("content", (delta) => deltas.push(delta));
    return { deltas, content: await runner.finalContent() };
  },

  /** Sends headers and query parameters that other services use. */
  async ignoredExtras(context: OpenAiContext) {
    const client = context.client({
      organization: "org-1",
      project: "proj-1",
      baseURL: `${context.target.api}/`,
      defaultHeaders: { "OpenAI-Beta": "assistants=v2" },
      defaultQuery: { limit: "5" },
    });
    const completion = await client.chat.completions.create({ model, messages });
    return { text: completion.choices[0]?.message.content };
  },

  /** Cancels streams after some chunks: once with the controller, once by leaving the loop. */
  async abort(context: OpenAiContext) {
    const client = context.client();
    const params = { model: "endless", messages, stream: true } as const;
    const aborted = await client.chat.completions.create(params);
    let chunks = 0;
    for await (const _ of aborted) if (++chunks === 3) aborted.controller.abort();
    const left = await client.chat.completions.create(params);
    for await (const _ of left) if (++chunks >= 6) break;
    return { chunks };
  },

  /** Aborts a whole answer after the client's own timeout. */
  async timeout(context: OpenAiContext) {
    const request = context.client().chat.completions.create({ model: "endless", messages }, { timeout: 300 });
    return context.raised(request);
  },
};

async function collect(stream: AsyncIterable<ChatCompletionChunk>): Promise<ChatCompletionChunk[]> {
  const chunks: ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
