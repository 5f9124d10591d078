import { createCohere } from "@ai-sdk/cohere";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  embedMany,
  generateText,
  jsonSchema,
  type LanguageModel,
  Output,
  rerank,
  stepCountIs,
  streamText,
  tool,
} from "ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { collect } from "./collect.js";
import { sayings, sdkService } from "./models.js";

const place = jsonSchema<{ city: string; mild: boolean }>({
  type: "object",
  properties: { city: { type: "string" }, mild: { type: "boolean" } },
  required: ["city", "mild"],
  additionalProperties: false,
});

const prompt = "What is the capital of France?";

/** Constructors of each provider package's models. */
interface Provider {
  chat(id: string, apiKey?: string): LanguageModel;
  completion(id: string): LanguageModel;
  vectors(): Parameters<typeof embedMany>[0]["model"];
}

let service: RunningService;
beforeAll(async () => {
  service = await startService(sdkService);
});
afterAll(() => service.close());

const openAi = (apiKey = service.key) => createOpenAI({ baseURL: service.api, apiKey });
const compatible = (apiKey = service.key) =>
  createOpenAICompatible({
    name: "unified",
    baseURL: service.api,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });

const providers: Readonly<Record<string, Provider>> = {
  "@ai-sdk/openai by default": {
    // Responses.
    chat: (id, apiKey) => openAi(apiKey)(id),
    completion: (id) => openAi().completion(id),
    vectors: () => openAi().embedding("vectors"),
  },
  "@ai-sdk/openai with chat completions": {
    chat: (id, apiKey) => openAi(apiKey).chat(id),
    completion: (id) => openAi().completion(id),
    vectors: () => openAi().embedding("vectors"),
  },
  "@ai-sdk/openai-compatible": {
    chat: (id, apiKey) => compatible(apiKey).chatModel(id),
    completion: (id) => compatible().completionModel(id),
    vectors: () => compatible().embeddingModel("vectors"),
  },
};

describe.each(Object.entries(providers))("ai with %s", (_, { chat, completion, vectors }) => {
  const usage = { inputTokens: 6, outputTokens: 6, totalTokens: 12 };

  it("generateText returns text, finish reason and usage (RESP-3, RESP-7, RESP-8)", async () => {
    const result = await generateText({ model: chat("org/chat:tag"), prompt, maxRetries: 0 });
    expect(result.text).toBe(sayings.chat);
    expect(result.finishReason).toBe("stop");
    expect(result.usage).toMatchObject(usage);
    expect(result.response.modelId).toBe("org/chat:tag");
  });

  it("streamText returns the text in parts, the finish reason and the usage (STRM-5, STRM-10, STRM-13)", async () => {
    const result = streamText({ model: chat("org/chat:tag"), prompt, maxRetries: 0 });
    const parts = await collect(result.fullStream);
    expect(parts.filter(({ type }) => type === "error")).toEqual([]);
    expect(parts.filter(({ type }) => type === "text-delta").length).toBeGreaterThan(1);
    expect(await result.text).toBe(sayings.chat);
    expect(await result.finishReason).toBe("stop");
    expect(await result.usage).toMatchObject(usage);
  });

  it("a tool is called and the model answers after its result, streamed or not (TOOL-10, TOOL-12, TOOL-13)", async () => {
    const round = () => {
      const asked: string[] = [];
      const weather = tool({
        inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
        execute({ city }) {
          asked.push(city);
          return { celsius: 12 };
        },
      });
      return {
        asked,
        settings: { model: chat("agent"), prompt, tools: { weather }, stopWhen: stepCountIs(3), maxRetries: 0 },
      };
    };
    const whole = round();
    expect((await generateText(whole.settings)).text).toBe(sayings.afterTools);
    const streamed = round();
    expect(await streamText(streamed.settings).text).toBe(sayings.afterTools);
    expect([whole.asked, streamed.asked]).toEqual([["Oslo"], ["Oslo"]]);
  });

  it("an object is generated from its schema, whole and streamed", async () => {
    const settings = { model: chat("json"), prompt, output: Output.object({ schema: place }), maxRetries: 0 };
    const expected = JSON.parse(sayings.json);
    expect((await generateText(settings)).output).toEqual(expected);
    expect(await streamText(settings).output).toEqual(expected);
  });

  it("vectors are returned as numbers, one per value (EMB-4, EMB-5)", async () => {
    const { embeddings, usage } = await embedMany({ model: vectors(), values: ["red", "green"], maxRetries: 0 });
    expect(embeddings.map((vector) => vector.length)).toEqual([8, 8]);
    expect(embeddings[0]).not.toEqual(embeddings[1]);
    expect(usage.tokens).toBe(2);
  });

  it("legacy completions work, whole and streamed (CMPL-5, CMPL-6)", async () => {
    const settings = { model: completion("org/chat:tag"), prompt, maxRetries: 0 };
    expect(await generateText(settings)).toMatchObject({ text: sayings.chat, finishReason: "stop" });
    const streamed = streamText(settings);
    expect(await streamed.text).toBe(sayings.chat);
    expect(await streamed.finishReason).toBe("stop");
  });

  it("errors have status, message and whether to retry (ERR-5, ERR-7, ERR-11, ERR-23)", async () => {
    const failure = async (model: LanguageModel, settings: { temperature?: number } = {}) => {
      const error: unknown = await generateText({ model, prompt, maxRetries: 0, ...settings }).catch((e: unknown) => e);
      if (!APICallError.isInstance(error)) throw error;
      return { status: error.statusCode, retry: error.isRetryable, code: codeOf(error.data) };
    };
    const final = { retry: false };
    expect(await failure(chat("org/chat:tag", "sk-wrong"))).toEqual({ ...final, status: 401, code: "invalid_api_key" });
    expect(await failure(chat("nobody"))).toEqual({ ...final, status: 404, code: "model_not_found" });
    const hot = await failure(chat("org/chat:tag"), { temperature: 9 });
    expect(hot).toEqual({ ...final, status: 400, code: "decimal_above_max_value" });
    expect(await failure(chat("fails-always"))).toEqual({ status: 502, code: "upstream_error", retry: true });
  });
});

it("@ai-sdk/openai can send back earlier responses with store: false, and the error without it names it (RSP-2)", async () => {
  const model = openAi()("org/chat:tag");
  const { response } = await generateText({ model, prompt, maxRetries: 0 });
  const messages = [{ role: "user", content: prompt } as const, ...response.messages];
  const next = { model, messages: [...messages, { role: "user", content: "And of Norway?" } as const], maxRetries: 0 };
  const answer = await generateText({ ...next, providerOptions: { openai: { store: false } } });
  expect(answer.text).toBe(sayings.chat);
  await expect(generateText(next)).rejects.toThrow("providerOptions.openai.store: false");
});

it("@ai-sdk/openai accepts the log probabilities (RESP-9)", async () => {
  const { providerMetadata } = await generateText({
    model: openAi().chat("org/chat:tag"),
    prompt,
    providerOptions: { openai: { logprobs: 2 } },
  });
  expect(providerMetadata?.["openai"]?.["logprobs"]).toHaveLength(6);
});

function codeOf(data: unknown): unknown {
  return (data as { error?: { code?: unknown } } | undefined)?.error?.code;
}

describe("ai with @ai-sdk/cohere", () => {
  const model = (id: string) => createCohere({ baseURL: service.api, apiKey: service.key }).reranking(id);
  const documents = ["Berlin", "Paris is the capital of France.", "of France"];

  it("rerank returns the best documents with their scores (RANK-2, RANK-3, RANK-4, RANK-8)", async () => {
    const { ranking } = await rerank({
      model: model("ranks"),
      query: "capital of France",
      documents,
      topN: 2,
      maxRetries: 0,
    });
    expect(ranking).toEqual([
      { originalIndex: 1, score: 1, document: documents[1] },
      { originalIndex: 2, score: 2 / 3, document: documents[2] },
    ]);
  });

  it("rerank raises an error with the status (GEN-13)", async () => {
    const asked = rerank({ model: model("vectors"), query: "a", documents, maxRetries: 0 });
    await expect(asked).rejects.toSatisfy((error) => APICallError.isInstance(error) && error.statusCode === 400);
  });
});
