import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, type ChatOpenAIFields, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { collect } from "./collect.js";
import { sayings, sdkService } from "./models.js";

const question = "How is the weather in Oslo?";
const weather = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
} as const;
const clock = { type: "function", function: { name: "clock" } } as const;

describe("@langchain/openai", () => {
  let service: RunningService;
  const connection = (apiKey = service.key) => ({ apiKey, configuration: { baseURL: service.api }, maxRetries: 0 });
  const chat = (model: string, fields: ChatOpenAIFields = {}) => new ChatOpenAI({ model, ...connection(), ...fields });

  beforeAll(async () => {
    service = await startService(sdkService);
  });
  afterAll(() => service.close());

  it("invoke returns the message with its metadata (RESP-4, RESP-7, RESP-8)", async () => {
    const message = await chat("org/chat:tag").invoke(question);
    expect(message.content).toBe(sayings.chat);
    expect(message.response_metadata).toMatchObject({ finish_reason: "stop" });
    expect(message.usage_metadata).toMatchObject({ input_tokens: 6, output_tokens: 6, total_tokens: 12 });
  });

  it("chunks add up to an assistant message with usage (STRM-1, STRM-10)", async () => {
    const chunks = await collect(await chat("org/chat:tag").stream(question));
    const whole = chunks.reduce((sum, chunk) => sum.concat(chunk));
    expect(chunks.length).toBeGreaterThan(3);
    expect(whole.type).toBe("ai");
    expect(whole.content).toBe(sayings.chat);
    expect(whole.usage_metadata).toMatchObject({ input_tokens: 6, output_tokens: 6 });
  });

  it("bound tools are called, streamed or not (STRM-1, STRM-6, TOOL-11, TOOL-12)", async () => {
    const model = chat("tools").bindTools([weather, clock]);
    const calls = [
      { name: "weather", args: { city: "Oslo" }, id: expect.stringMatching(/^call_/), type: "tool_call" },
      { name: "clock", args: {}, id: expect.stringMatching(/^call_/), type: "tool_call" },
    ];
    const whole = await model.invoke(question);
    expect(whole.tool_calls).toEqual(calls);
    expect(whole.invalid_tool_calls).toEqual([]);
    const chunks = await collect(await model.stream(question));
    const streamed = chunks.reduce((sum, chunk) => sum.concat(chunk));
    expect(streamed.tool_calls).toEqual(calls);
    expect(streamed.invalid_tool_calls).toEqual([]);
  });

  it("the model answers after the results of tools", async () => {
    const model = chat("agent").bindTools([weather]);
    const asked = new HumanMessage(question);
    const called = await model.invoke([asked]);
    const result = new ToolMessage({ tool_call_id: String(called.tool_calls?.[0]?.id), content: "12 degrees" });
    expect((await model.invoke([asked, called, result])).content).toBe(sayings.afterTools);
  });

  it("withStructuredOutput returns the object", async () => {
    const schema = { title: "place", type: "object", properties: { city: { type: "string" } } };
    const model = chat("json").withStructuredOutput(schema, { method: "jsonSchema" });
    expect(await model.invoke(question)).toEqual(JSON.parse(sayings.json));
  });

  describe("with useResponsesApi", () => {
    const responses = (model: string) => chat(model, { useResponsesApi: true });
    const streamed = async (model: Pick<ChatOpenAI, "stream">, messages: BaseMessage[]) => {
      const chunks = await collect(await model.stream(messages));
      return chunks.reduce((sum, chunk) => sum.concat(chunk));
    };
    const asked = new HumanMessage(question);

    it("invoke and stream return the text with its usage (RSP-4, RSP-7)", async () => {
      const usage = { input_tokens: 6, output_tokens: 6, total_tokens: 12 };
      const model = responses("org/chat:tag");
      for (const message of [await model.invoke([asked]), await streamed(model, [asked])]) {
        expect(message.text).toBe(sayings.chat);
        expect(message.usage_metadata).toMatchObject(usage);
      }
    });

    it("bound tools are called and the model answers after their results, streamed or not (RSP-2, RSP-5, RSP-8)", async () => {
      const model = responses("agent").bindTools([weather]) as ChatOpenAI;
      const invoked = (messages: BaseMessage[]) => model.invoke(messages);
      for (const ask of [invoked, (messages: BaseMessage[]) => streamed(model, messages)]) {
        const called = await ask([asked]);
        expect(called.tool_calls).toMatchObject([{ name: "weather", args: { city: "Oslo" } }]);
        const result = new ToolMessage({ tool_call_id: String(called.tool_calls?.[0]?.id), content: "12 degrees" });
        expect((await ask([asked, called, result])).text).toBe(sayings.afterTools);
      }
    });

    it("withStructuredOutput returns the object (RSP-1)", async () => {
      const schema = { title: "place", type: "object", properties: { city: { type: "string" } } };
      const model = responses("json").withStructuredOutput(schema, { method: "jsonSchema" });
      expect(await model.invoke(question)).toEqual(JSON.parse(sayings.json));
    });
  });

  it("documents have one vector each, in order (EMB-4, EMB-6)", async () => {
    const embeddings = new OpenAIEmbeddings({ model: "vectors", batchSize: 2, ...connection() });
    const texts = ["red", "green", "blue"];
    const vectors = await embeddings.embedDocuments(texts);
    expect(vectors.map((vector) => vector.length)).toEqual([8, 8, 8]);
    expect(vectors).toEqual(await Promise.all(texts.map((text) => embeddings.embedQuery(text))));
  });

  it("legacy completions work, whole and streamed (CMPL-5, CMPL-6)", async () => {
    const model = new OpenAI({ model: "org/chat:tag", ...connection() });
    expect(await model.invoke(question)).toBe(sayings.chat);
    expect((await collect(await model.stream(question))).join("")).toBe(sayings.chat);
  });

  it("errors have their status and code, and never show a key (ERR-5, ERR-11, ERR-12)", async () => {
    const failure = async (model: string, apiKey: string) => {
      const error: unknown = await chat(model, connection(apiKey))
        .invoke(question)
        .catch((e: unknown) => e);
      return error as Error & { status: number; code: string };
    };
    const wrongKey = `${service.key}x`;
    const errors = [
      await failure("org/chat:tag", wrongKey),
      await failure("org/chat:tag", service.readKey),
      await failure("nobody", service.key),
    ];
    expect(errors.map(({ status, code }) => [status, code])).toEqual([
      [401, "invalid_api_key"],
      [403, "insufficient_permissions"],
      [404, "model_not_found"],
    ]);
    for (const { message } of errors) expect(message).not.toContain("sk-uis-");
  });

  it("LangChain recognises the error of a prompt that is too long (ERR-9)", async () => {
    const error: unknown = await chat("org/chat:tag")
      .invoke("word ".repeat(5_000))
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "ContextOverflowError" });
  });
});
